package scalar

import (
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"sluice/internal/config/ets"
	"sluice/internal/config/plaintext"
	"sluice/internal/config/schema"
)

// nameTypes are the types that YAML gives names: some are numbers.
var nameTypes = []string{"string", "integer"}

// Name reads a name that can be a label of counters.
func Name(longest int, what string) Syntax[string] {
	form := fmt.Sprintf("1 to %d characters, none of them a space or a quote", longest)
	s := &schema.Schema{Type: nameTypes, Pattern: fmt.Sprintf(`^[!#-&(-\[\]-_a-~]{1,%d}$`, longest), Form: form}
	return syntax(s, what+" has "+form, func(text string) (string, string) {
		if text == "" || len(text) > longest {
			return "", fmt.Sprintf("has %d characters", len(text))
		}
		for _, r := range text {
			if r <= ' ' || r > '~' || strings.ContainsRune("\"'`\\", r) {
				return "", fmt.Sprintf("contains %q", r)
			}
		}
		return text, ""
	})
}

// Device reads a name that Linux accepts for a network device (dev_valid_name in net/core/dev.c).
func Device() Syntax[string] {
	s := &schema.Schema{Type: nameTypes, Pattern: `^[!-.0-9;-~]{1,15}$`, Form: "the name of a network device"}
	remedy := "write the name that `ip link` shows, at most 15 characters, not an altname"
	return syntax(s, remedy, func(text string) (string, string) {
		switch {
		case text == "" || text == "." || text == ".." || len(text) > 15:
			return "", "is not a device name"
		case strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == '/' || r == ':' || r > '~' }):
			return "", "is not a device name"
		}
		return text, ""
	})
}

// Listener reads an address to listen on.
func Listener() Syntax[string] {
	s := &schema.Schema{Type: "string", Pattern: `^([0-9.]+|\[[0-9A-Fa-f:.]+\])?:[1-9][0-9]{0,4}$`,
		Form: "an IP address and a port, like 127.0.0.1:9473"}
	return syntax(s, "write an address and a port like 127.0.0.1:9473 or [::1]:9473; without an address, as in "+
		":9473, it listens at all addresses, open to everyone who reaches them",
		func(text string) (string, string) {
			host, port, err := net.SplitHostPort(text)
			if err != nil {
				return "", "is not an address with a port"
			}
			if number, problem := Digits(port); problem != "" || number < 1 || number > 65535 {
				return "", "has no port from 1 to 65535"
			}
			if host != "" && net.ParseIP(host) == nil {
				return "", "has no IP address before the port"
			}
			return text, ""
		})
}

// Path reads the name of a file.
func Path() Syntax[string] {
	s := &schema.Schema{Type: "string", Pattern: "^" + plaintext.VisibleBut("") + "+$", Form: "the name of a file"}
	return syntax(s, "write the name of a file", func(text string) (string, string) {
		if text == "" || strings.ContainsFunc(text, plaintext.Invisible) {
			return "", "is not the name of a file"
		}
		return text, ""
	})
}

// Line reads one line of text that is sent in a TLV of at most a number of bytes.
func Line(longest int) Syntax[string] {
	form := fmt.Sprintf("a line of 1 to %d bytes", longest)
	pattern := fmt.Sprintf("^%s{1,%d}$", plaintext.VisibleBut(""), longest)
	s := &schema.Schema{Type: nameTypes, Pattern: pattern, Form: form}
	return syntax(s, "write "+form, func(text string) (string, string) {
		if text == "" || len(text) > longest {
			return "", fmt.Sprintf("has %d bytes", len(text))
		}
		if !utf8.ValidString(text) || strings.ContainsFunc(text, plaintext.Invisible) {
			return "", "contains invisible characters"
		}
		return text, ""
	})
}

// Address reads an IP address.
func Address() Syntax[netip.Addr] {
	s := &schema.Schema{Type: "string", Pattern: `^[0-9A-Fa-f.:]+$`, Form: "an IP address"}
	return syntax(s, "write an address like 192.0.2.1 or 2001:db8::1", func(text string) (netip.Addr, string) {
		ip, err := netip.ParseAddr(text)
		if err != nil || ip.Zone() != "" || ip.IsUnspecified() {
			return netip.Addr{}, "is not the IP address of a host"
		}
		return ip, ""
	})
}

// leastEtherType is the lowest EtherType: lower values are lengths (IEEE 802.3).
const leastEtherType = 0x600

// EtherType reads an EtherType, in hexadecimal with 0x in front or in decimal.
func EtherType() Syntax[uint16] {
	lowest, highest := float64(leastEtherType), 65535.0
	hex := &schema.Schema{Type: "string", Pattern: "^0x(0?[6-9A-Fa-f][0-9A-Fa-f]{2}|[1-9A-Fa-f][0-9A-Fa-f]{3})$"}
	s := schema.Either(hex, &schema.Schema{Type: "integer", Minimum: &lowest, Maximum: &highest})
	s.Form = "an EtherType from 0x600 to 0xffff"
	return syntax(s, "write "+s.Form, func(text string) (uint16, string) {
		digits, base := text, 10
		if hex, ok := strings.CutPrefix(text, "0x"); ok && len(hex) <= 4 {
			digits, base = hex, 16
		}
		value, err := strconv.ParseUint(digits, base, 16)
		if err != nil || value < leastEtherType || base == 10 && text[0] == '0' {
			return 0, "is not an EtherType"
		}
		return uint16(value), ""
	})
}

// FCMap reads an FC-MAP: 0EFC00 to 0EFCFF (FC-BB-5).
func FCMap() Syntax[uint32] {
	const form = "six hexadecimal digits from 0EFC00 to 0EFCFF"
	s := &schema.Schema{Type: "string", Pattern: "^0[Ee][Ff][Cc][0-9A-Fa-f]{2}$", Form: form}
	return syntax(s, "write "+form, func(text string) (uint32, string) {
		value, err := strconv.ParseUint(text, 16, 32)
		if err != nil || len(text) != 6 || value>>8 != 0x0efc {
			return 0, "is not an FC-MAP"
		}
		return uint32(value), ""
	}).as(func(fcMap uint32) string { return fmt.Sprintf("%06X", fcMap) })
}

// GroupNumber reads the number of a priority group. 8 to 14 are reserved (DCBX of CEE, priority
// group sub-TLV).
func GroupNumber() Syntax[int] {
	s := schema.OneOf([]string{"0", "1", "2", "3", "4", "5", "6", "7", "15"})
	return syntax(s, "write 0 to 7 for a group with a weight, or 15 for the group that is sent before all others",
		func(text string) (int, string) {
			number, problem := Digits(text)
			switch {
			case problem != "":
				return 0, problem
			case number > 7 && number < ets.StrictGroup:
				return 0, "is reserved"
			case number > ets.StrictGroup:
				return 0, "is out of range"
			}
			return number, ""
		})
}

// OnOff reads a switch.
func OnOff() Syntax[bool] {
	return syntax(schema.OneOf([]string{"on", "off"}), "write on or off", func(text string) (bool, string) {
		if text != "on" && text != "off" {
			return false, "is neither on nor off"
		}
		return text == "on", ""
	})
}

// LongestSocket is the maximum length of the path of a Unix socket (sun_path in linux/un.h has 108
// bytes, the last of them 0).
const LongestSocket = 107

// SocketPath reads the path of a Unix socket.
func SocketPath() Syntax[string] {
	s := &schema.Schema{
		Type: "string", Pattern: "^/" + plaintext.VisibleBut("") + "{0,105}" + plaintext.VisibleBut("/") + "$",
		Form: "an absolute path of at most 107 characters",
	}
	return syntax(s, "write an absolute path of at most 107 characters, or none", func(text string) (string, string) {
		switch {
		case !filepath.IsAbs(text) || strings.HasSuffix(text, "/") || filepath.Clean(text) == "/":
			return "", "is not the absolute path of a file"
		case len(text) > LongestSocket || strings.ContainsFunc(text, plaintext.Invisible):
			return "", "can't be the path of a socket"
		}
		return filepath.Clean(text), ""
	})
}
