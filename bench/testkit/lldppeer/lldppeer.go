// Package lldppeer runs stock LLDP agents in tests, as link partners that share no code with this
// project: lldpad, which speaks DCBX, and lldpd. A typical test:
//
//	p := lldppeer.StartLLDPAD(t, s.Hosts[0], program.HostDevice)
//	p.Configure(lldppeer.Settings{PFCWilling: true})
//	lldppeer.Await(t, "PFC of priority 3", 1<<3, func() uint8 { return p.Device().PFC })
//
// Agents use sockets, files and shared memory with fixed names. So each needs a network namespace
// without another, and has a mount namespace of its own with empty directories at these paths.
package lldppeer

import (
	"bytes"
	"cmp"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/bench/netns"
	"sluice/bench/testkit/program"
)

// Transmission selection algorithms (IEEE 802.1Qaz).
const (
	Strict      = 0
	CreditBased = 1
	Weighted    = 2 // ETS
	Vendor      = 255
)

// Selectors of applications (IEEE 802.1Qaz).
const (
	EtherType = 1
	TCP       = 2
	UDP       = 3
	AnyPort   = 4
	DSCP      = 5
)

// ETS is a table of enhanced transmission selection. The zero value maps all priorities to traffic
// class 0 and makes all classes strict.
type ETS struct {
	TC        [8]uint8 // traffic class, by priority
	Bandwidth [8]uint8 // in percent, by traffic class
	TSA       [8]uint8 // transmission selection algorithm, by traffic class
}

// App is an entry of an application table.
type App struct {
	Priority, Selector uint8
	Protocol           uint16
}

// sorted returns applications by priority, selector and protocol, and nil for none.
func sorted(apps []App) []App {
	return slices.SortedFunc(slices.Values(apps), func(a, b App) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Selector, b.Selector),
			cmp.Compare(a.Protocol, b.Protocol))
	})
}

// patience bounds waits for what agents do at once or at their fast rate, one LLDPDU a second.
const patience = program.Patience

// Await waits until get returns want. Asking an agent starts a program, so it asks rarely.
func Await[T any](t *testing.T, what string, want T, get func() T) {
	t.Helper()
	AwaitWithin(t, patience, what, want, get)
}

// AwaitWithin is Await for events that take longer, such as the end of a TTL.
func AwaitWithin[T any](t *testing.T, limit time.Duration, what string, want T, get func() T) {
	t.Helper()
	for deadline := time.Now().Add(limit); ; time.Sleep(50 * time.Millisecond) {
		got := get()
		if reflect.DeepEqual(got, want) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is %+v after %v, want %+v", what, got, limit, want)
		}
	}
}

// need skips the test if a program is not installed. In CI, a skipped test is a failure.
func need(t *testing.T, programs ...string) {
	t.Helper()
	program.NeedRoot(t)
	for _, name := range programs {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("needs %s (scripts/install-peers): %v", name, err)
		}
	}
}

// start starts an agent with empty directories of its own, after the shell command setUp in the
// same mount namespace. A shell is the first process of a PID namespace, so the kernel kills all
// processes of the agent with it. (lldpd drops its privileges, and would outlive the test.)
func start(t *testing.T, in *netns.Namespace, directories []string, setUp string, agent ...string) *program.Running {
	t.Helper()
	var script strings.Builder
	for _, d := range directories {
		script.WriteString("mount -t tmpfs tmpfs " + d + " || exit\n")
	}
	script.WriteString(setUp + "\n" + `"$@" & trap "kill $!" TERM; wait $!; wait $!`)
	c := exec.Command("sh", append([]string{"-c", script.String(), "sh"}, agent...)...)
	c.SysProcAttr = &unix.SysProcAttr{
		Cloneflags:   unix.CLONE_NEWPID,
		Unshareflags: unix.CLONE_NEWNS, // os/exec then keeps mounts from spreading to the machine
	}
	return program.LaunchCommand(t, in, c)
}

// ask runs an agent's client in its network namespace.
func ask(in *netns.Namespace, client string, args ...string) (string, error) {
	var out bytes.Buffer
	c := exec.Command(client, args...)
	c.Stdout, c.Stderr = &out, &out
	err := in.Start(c)
	if err == nil {
		err = c.Wait()
	}
	return out.String(), err
}

// kill ends an agent without giving it time to say goodbye.
func kill(p *program.Running) {
	p.T.Helper()
	p.Signal(unix.SIGKILL)
	p.ExitCode()
}
