package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"sluice/pmd/afxdp"
)

// Program is an XDP program on a device. Fields that this process may not see are empty.
type Program struct {
	ID     uint32
	Name   string
	Mode   string // native, generic, offloaded, multiple
	Hidden bool   // this process may not inspect it, so its owner is unknown
	Link   uint32 // the bpf_link that holds it; 0: attached without one, or not visible
	Holder int    // a process that holds the link; 0: none, or not visible
	Of     string // the kernel's name of that process
}

// Ours reports whether Sluice has attached the program.
func (p *Program) Ours() bool { return p.Name == afxdp.ProgramName }

// detach returns the command that removes a program from a device. If it is attached through a
// link, the kernel refuses other ways.
func (p *Program) detach(device string) string {
	if p.Link != 0 {
		return fmt.Sprintf("bpftool link detach id %d", p.Link)
	}
	mode := map[string]string{"native": "xdpdrv", "generic": "xdpgeneric", "offloaded": "xdpoffload"}[p.Mode]
	if mode == "" {
		mode = "xdp"
	}
	return fmt.Sprintf("ip link set dev %s %s off", quoted(device), mode)
}

func (p *Program) String() string {
	text := fmt.Sprintf("XDP program %d", p.ID)
	if p.Name != "" {
		text += fmt.Sprintf(" %q", p.Name)
	}
	text += ", " + p.Mode
	if p.Holder != 0 {
		text += fmt.Sprintf(", of process %d (%s)", p.Holder, p.Of)
	}
	return text
}

// findProgram returns what is known of a device's program. mode is IFLA_XDP_ATTACHED
// (linux/if_link.h).
func findProgram(index int, id, mode uint32) *Program {
	modes := [...]string{"", "native", "generic", "offloaded", "multiple"}
	p := &Program{ID: id, Mode: modes[min(int(mode), len(modes)-1)]}
	program, err := ebpf.NewProgramFromID(ebpf.ProgramID(id))
	p.Hidden = errors.Is(err, fs.ErrPermission)
	if err == nil {
		defer program.Close()
		if info, err := program.Info(); err == nil {
			p.Name = info.Name
		}
	}
	p.Link = linkOf(index, id)
	if p.Link != 0 {
		p.Holder, p.Of = holderOf(p.Link)
	}
	return p
}

// linkOf returns the ID of the link that attaches a program to a device, or 0.
func linkOf(index int, program uint32) uint32 {
	links := new(link.Iterator)
	defer links.Close()
	for links.Next() {
		info, err := links.Link.Info()
		if err != nil || uint32(info.Program) != program {
			continue
		}
		if x := info.XDP(); x != nil && int(x.Ifindex) == index {
			return uint32(links.ID)
		}
	}
	return 0
}

// holderOf looks for another process that has a link open.
func holderOf(id uint32) (pid int, name string) {
	files, _ := filepath.Glob("/proc/[0-9]*/fdinfo/*")
	for _, file := range files {
		parts := strings.Split(file, "/")
		if pid, _ = strconv.Atoi(parts[2]); pid == os.Getpid() {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(text), fmt.Sprintf("link_id:\t%d\n", id)) {
			continue
		}
		comm, _ := os.ReadFile(filepath.Join("/proc", parts[2], "comm"))
		return pid, strings.TrimSpace(string(comm))
	}
	return 0, ""
}
