package config

import (
	"fmt"

	"sluice/internal/config/scalar"
)

// DefaultSocket is the default path of the control socket.
const DefaultSocket = "/run/sluice/sluice.sock"

// Control is where the switch serves its clients on this machine, and who they may be.
type Control struct {
	Socket string // path of a Unix socket; empty: none
	Group  string // whose members may connect, besides root; empty: that of the process

	// Viewers is the group whose members may read but give no commands; empty: none.
	Viewers string
}

// viewSuffix is appended to the name of the control socket to name the viewers' socket.
const viewSuffix = ".view"

// ViewSocket returns the path of the viewers' socket that belongs to a control socket. It exists
// only if the configuration names viewers.
func ViewSocket(socket string) string { return socket + viewSuffix }

// checkControl refuses viewers who could not connect.
func checkControl(d *decoder, c *Control) {
	switch {
	case c.Viewers == "" || !d.sound(&c.Socket, &c.Viewers):
	case c.Socket == "":
		d.fail(&c.Viewers, "viewers is set, but socket is none", "remove viewers, or set socket to a path")
	case len(ViewSocket(c.Socket)) > scalar.LongestSocket:
		d.fail(&c.Socket,
			fmt.Sprintf("a path of %d characters is too long with viewers, whose socket has the suffix %q",
				len(c.Socket), viewSuffix),
			fmt.Sprintf("write one of at most %d characters", scalar.LongestSocket-len(viewSuffix)))
	}
}

var controlKeys = []key[Control]{
	optional("socket", DefaultSocket,
		"the Unix socket on which the switch answers sluice show and other commands; none: no socket",
		orNone(single(scalar.SocketPath())), func(c *Control) *string { return &c.Socket }),
	optional("group", "",
		"the group, by name or number, whose members have access besides root; default: that of the process",
		name(32, "the name of a group"), func(c *Control) *string { return &c.Group }),
	optional("viewers", "", "a second group, by name or number, whose members may read but give no commands; "+
		"they connect to a socket of their own, with the suffix .view; default: no group",
		name(32, "the name of a group"), func(c *Control) *string { return &c.Viewers }),
}
