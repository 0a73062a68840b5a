package config

import (
	"path/filepath"
	"strings"
)

// DefaultSocket is where a switch answers on its machine, if the file does not say otherwise.
const DefaultSocket = "/run/sluice/sluice.sock"

// Control says where the switch answers those who look at it and steer it on its machine, and who they may be.
type Control struct {
	Socket string // path of a Unix socket; empty: nowhere
	Group  string // whose members may ask, beside root; empty: that of the process
}

var controlKeys = []key[Control]{
	optional("socket", DefaultSocket, "the Unix socket on which the switch answers sluice show and its like; none: it answers nobody",
		orNone(socketPath()), func(c *Control) *string { return &c.Socket }),
	optional("group", "", "the group whose members may ask, beside root, by name or number; default: that of the process",
		name(32, "the name of a group"), func(c *Control) *string { return &c.Group }),
}

// longestSocket is how long the path of a Unix socket may be (sun_path in linux/un.h has 108 bytes, the last of them 0).
const longestSocket = 107

// socketPath reads the path of a Unix socket.
func socketPath() codec[string] {
	s := &schema{
		Type: "string", Pattern: "^/" + visibleBut("") + "{0,105}" + visibleBut("/") + "$",
		form: "an absolute path of at most 107 characters",
	}
	return scalar(s, "write an absolute path of at most 107 characters, or none", func(text string) (string, string) {
		switch {
		case !filepath.IsAbs(text) || strings.HasSuffix(text, "/") || filepath.Clean(text) == "/":
			return "", "is no absolute path of a file"
		case len(text) > longestSocket || strings.ContainsFunc(text, invisible):
			return "", "can't be the path of a socket"
		}
		return filepath.Clean(text), ""
	})
}
