package rig

import (
	"crypto/sha256"
	_ "embed" // the pins
	"encoding/hex"
	"fmt"
	"strings"
)

// pinned lists the packages of a rig, one a line: suite, package, version and SHA-256 of the .deb.
//
//go:embed pins.txt
var pinned string

// pin is a Debian package in one version.
type pin struct{ suite, name, version, sha256 string }

// parsePins reads a list of pins. Lines that begin with # are comments.
func parsePins(text string) (pins []pin, err error) {
	seen := map[string]bool{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		words := strings.Fields(line)
		if len(words) != 4 || len(words[3]) != hex.EncodedLen(sha256.Size) {
			return nil, fmt.Errorf("rig: pins: %q is not suite, package, version and SHA-256", line)
		}
		if seen[words[1]] {
			return nil, fmt.Errorf("rig: pins: %s twice", words[1])
		}
		seen[words[1]] = true
		pins = append(pins, pin{words[0], words[1], words[2], words[3]})
	}
	return pins, nil
}

// line returns the line of a package in a list of pins.
func (p pin) line() string {
	return fmt.Sprintf("%s %s %s %s\n", p.suite, p.name, p.version, p.sha256)
}

// repin returns a list of pins with chosen packages in place of others.
func repin(text string, pins, chosen []pin) string {
	for i, p := range pins {
		text = strings.Replace(text, p.line(), chosen[i].line(), 1)
	}
	return text
}

// digest identifies a list of pins.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:6])
}
