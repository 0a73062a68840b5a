// Package doctor examines a machine from the point of view of a switch, before the switch is
// started or while it runs. It reports what is in order and what is not, and suggests a fix for
// each problem. It changes nothing, and asks a running switch only for its report.
//
// A check is a function of an examination. It sees the machine only through a Machine, so tests can
// have machines with any problem.
package doctor

import (
	"fmt"
	"strings"
	"unicode"

	"sluice/internal/config"
	"sluice/internal/control/memory"
)

// Status says how bad a finding is.
type Status string

// From Error on, a switch would not start, or would lose what it must not lose.
const (
	OK      Status = "ok"
	Warning Status = "warning"
	Error   Status = "error"
)

// Finding is the result of one check of one subject.
type Finding struct {
	Status  Status `json:"status"`  // ok, warning or error
	Subject string `json:"subject"` // what it is about: kernel, cpu 1, a device
	Text    string `json:"text"`    // what was found, and what it means
	// a shell command that solves the problem, for root in the network namespace of the switch, or,
	// with a position in the configuration, a line to write there; empty: there is nothing to do,
	// or no command does it
	Fix string `json:"fix,omitempty"`
	At  string `json:"at,omitempty"` // file:line:column of the position in the configuration
}

// Report is the result of an examination: the findings in the order of the checks.
type Report struct {
	Errors   int       `json:"errors"`
	Warnings int       `json:"warnings"`
	Findings []Finding `json:"findings"`
}

// Target is what is examined in addition to the machine.
type Target struct {
	Config  *config.Config // nil: none was given, or it is invalid
	Problem error          // what is wrong with the configuration
	Running *Running       // nil: no switch answers
	Ring    int            // length of a port's receive ring in frames, if a switch is started with Config
	// Check returns errors of `sluice check` other than mistakes in the file; nil: none.
	Check  func(*config.Config) error
	Silent error // why a switch that may be running did not answer; nil: there is none, or it is Running
}

// examination is one run of the checks.
type examination struct {
	Machine
	Target
	Report
	status  map[string]string // of /proc/self/status, by name
	assumed map[string]uint64 // by device, in bit/s: link rates from the file, or its defaults
	rates   map[string]uint64 // by device, in bit/s: actual link rates; nil if the configuration does not fit them
}

// checks are in the order of a report: the machine, each device, then what lossless classes depend
// on.
var checks = []func(*examination){
	configuration, links, running, processor, kernel, afXDP, capabilities, lockedMemory, freeMemory, hugepages,
	stateDirectory, controlSocket, clock, cpus,
	processorShare, transmission, metrics, devices, loops, mismatches, snooping, loopGap,
}

// Examine runs all checks.
func Examine(m Machine, p Target) *Report {
	m.Device = lookedAtOnce(m.Device) // several checks ask for one
	e := &examination{Machine: m, Target: p, status: memory.Fields(m.Read, "/proc/self/status")}
	e.Findings = []Finding{}
	for _, check := range checks {
		check(e)
	}
	return &e.Report
}

func (e *examination) add(f Finding) {
	switch f.Status {
	case Warning:
		e.Warnings++
	case Error:
		e.Errors++
	}
	e.Findings = append(e.Findings, f)
}

func (e *examination) ok(subject, format string, args ...any) {
	e.add(Finding{Status: OK, Subject: subject, Text: fmt.Sprintf(format, args...)})
}

func (e *examination) warn(subject, fix, format string, args ...any) {
	e.add(Finding{Status: Warning, Subject: subject, Fix: fix, Text: fmt.Sprintf(format, args...)})
}

func (e *examination) fail(subject, fix, format string, args ...any) {
	e.add(Finding{Status: Error, Subject: subject, Fix: fix, Text: fmt.Sprintf(format, args...)})
}

// quoted returns text as one word of a shell command: a device may be called $x or a;b.
func quoted(text string) string {
	plain := func(r rune) bool {
		return r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r) ||
			strings.ContainsRune("@%+=:,./_-", r))
	}
	if text != "" && strings.TrimFunc(text, plain) == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// in returns line for the place of a mapping, which is given as a pointer into the Config. If the
// file does not have the mapping, it returns line inside the mapping.
func (e *examination) in(mapping any, name, line string) string {
	if e.Config.Given(mapping) {
		return line
	}
	return fmt.Sprintf("%s: {%s}", name, line)
}
