package confine

import "golang.org/x/sys/unix"

// refusedHere are further refused calls of amd64: older names of the same.
var refusedHere = []uint32{unix.SYS_CHMOD, unix.SYS_CHOWN, unix.SYS_LCHOWN, unix.SYS_UTIME, unix.SYS_UTIMES,
	unix.SYS_FUTIMESAT}
