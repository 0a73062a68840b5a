package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"sluice/bench/testkit/program"
	"sluice/internal/cli"
)

func TestHelp(t *testing.T)   { program.CheckHelp(t, command) }
func TestManual(t *testing.T) { program.CheckManual(t, command) }

// TestConventions checks that help finds the topic.
func TestConventions(t *testing.T) {
	text := program.Output(t, "help")
	for _, words := range []string{"\nRun a switch:\n", "\nExamples:\n", "conventions "} {
		if !strings.Contains(text, words) {
			t.Errorf("help does not show %q:\n%s", words, text)
		}
	}
	topic := program.Output(t, "help", "conventions")
	for _, words := range []string{
		"FILE:LINE:COLUMN: PROBLEM: REMEDY", "\n  0  ", "\n  1  ", "\n  2  ", "\n  3  ", "\n 64  ", "\n 66  ",
		"SIGTERM", "Environment\n", "KiB",
	} {
		if !strings.Contains(topic, words) {
			t.Errorf("the conventions do not tell of %q", words)
		}
	}
}

// TestManualNowhere checks the error for a directory that can't be created.
func TestManualNowhere(t *testing.T) {
	p := program.Launch(t, nil, "docs", "--man", "/proc/nowhere")
	checkRefusal(t, p, cli.ExitFailure, []string{"--man /proc/nowhere", "may write to"})
}

func TestCompletion(t *testing.T) {
	program.CheckCompletion(t, []program.Offer{
		{Words: []string{""}, Offered: []string{"run\t", "check\t", "show\t", "completion\t"}},
		{Words: []string{"headroom", "--method", ""}, Offered: []string{"annex-o", "all"}},
		{Words: []string{"headroom", "--medium", ""}, Offered: []string{"fibre"}},
		{Words: []string{"run", "--config", ""}, Offered: []string{"yaml", "yml", ":8"}}, // files with these extensions
		{Words: []string{"help", ""}, Offered: []string{"check\t"}},
	})
}

// TestPortsComplete checks that completion offers the ports of the switch on the given socket, and
// none if no switch answers.
func TestPortsComplete(t *testing.T) {
	s, socket := program.NewSite(t, 2), program.SocketPath(t)
	ask := func() string {
		p := program.Launch(t, nil, "__complete", "storm", "on", "--cos", "3", "--socket", socket, "")
		p.ExitCode()
		return p.Output.String()
	}
	if got := ask(); got != ":4\n" {
		t.Errorf("offered without a switch: %q", got)
	}
	program.StartSwitch(t, s.Home,
		fmt.Sprintf("ports: [{device: port1, speed: 1G}, {device: port2, speed: 1G}]\ncontrol: {socket: %s}\n", socket))
	if got := ask(); got != "port1\nport2\n:4\n" {
		t.Errorf("offered: %q", got)
	}
}

// TestSchemaCommand checks that the program prints the published schema.
func TestSchemaCommand(t *testing.T) {
	published, err := os.ReadFile("../../docs/sluice.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if program.Output(t, "schema") != string(published) {
		t.Error("schema prints something else than docs/sluice.schema.json")
	}
}
