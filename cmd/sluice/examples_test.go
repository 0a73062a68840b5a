package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sluice/bench/netns"
	"sluice/bench/testkit/program"
	"sluice/internal/config"
)

// example returns the text of an example with words replaced as by strings.NewReplacer. Each word
// must occur in it.
func example(t *testing.T, file string, oldnew ...string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for i := 0; i < len(oldnew); i += 2 {
		if !strings.Contains(text, oldnew[i]) {
			t.Fatalf("%s has no %q", file, oldnew[i])
		}
		text = strings.ReplaceAll(text, oldnew[i], oldnew[i+1])
	}
	return text
}

var exampleSpeed = regexp.MustCompile(`speed: \d+G`)

// TestExamplesRun runs every example on devices with the names it uses, at lower speed. All ports
// must come up, and the devices must be restored.
func TestExamplesRun(t *testing.T) {
	files, err := filepath.Glob("../../examples/*.yaml")
	if err != nil || len(files) < 6 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text := exampleSpeed.ReplaceAllString(example(t, file), "speed: 100M")
			c, err := config.Parse(file, []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			s := program.NewSite(t, 0)
			for i, port := range c.Ports {
				host := s.Namespace(t, fmt.Sprintf("host%d", i+1))
				if err := s.Lab.Veth(s.Home, port.Device, host, program.HostDevice, netns.MTU(port.MTU)); err != nil {
					t.Fatal(err)
				}
			}
			r := program.StartSwitch(t, s.Home, text).Stop()
			if len(r.Ports) != len(c.Ports) || r.LosslessDrops != 0 {
				t.Errorf("%d ports of %d, %d lossless drops", len(r.Ports), len(c.Ports), r.LosslessDrops)
			}
		})
	}
}
