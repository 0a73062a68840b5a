// Package doctor looks at a machine as a switch would find it, before the switch is started or
// while it runs, and says what is well, what is not, and how it is fixed. It changes nothing, and
// asks a switch that runs only for its report.
//
// A check is a function of an examination. What it knows of the machine it knows through a Machine,
// so that tests can have machines with any ailment.
package doctor

import (
	"fmt"
	"strings"
	"unicode"

	"sluice/internal/config"
	"sluice/internal/memory"
)

// Status says how bad a finding is.
type Status string

// From Error on, a switch would not start, or would lose what it must not lose.
const (
	OK      Status = "ok"
	Warning Status = "warning"
	Error   Status = "error"
)

// Finding is one thing that was looked at.
type Finding struct {
	Status  Status `json:"status"`
	Subject string `json:"subject"` // what it is about: kernel, cpu 1, a device
	Text    string `json:"text"`    // what is so, and what it means
	// Fix is what puts it right: a command for a shell, run as root in the network namespace of the
	// switch, or, if At is not empty, a line of the configuration. Empty: nothing has to be done,
	// or no command does it.
	Fix string `json:"mend,omitempty"`
	At  string `json:"at,omitempty"` // file:line:column of the configuration that the fix is for
}

// Report is what an examination has found, in the order of the checks.
type Report struct {
	Errors   int       `json:"errors"`
	Warnings int       `json:"warnings"`
	Findings []Finding `json:"findings"`
}

// Target is what is examined beside the machine.
type Target struct {
	Config  *config.Config // nil: none was given, or it is at fault
	Problem error          // what is wrong with the configuration
	Running *Running       // nil: no switch answers
	Ring    int            // frames that the receive ring of each port takes, if a switch is started with Config
	// Check refuses what `sluice check` refuses of a configuration beside mistakes in the file;
	// nil: nothing.
	Check  func(*config.Config) error
	Silent error // why a switch that may run did not answer; nil: there is none, or it is Running
}

// examination is one run of the checks.
type examination struct {
	Machine
	Target
	Report
	status  map[string]string // of /proc/self/status, by name
	assumed map[string]uint64 // by device, in bit/s: what the file says, or else does not, of the rates of links
	rates   map[string]uint64 // by device, in bit/s: what links have; nil if the configuration does not fit them
}

// checks are in the order of a report: the machine, each device, then what lossless classes depend
// on.
var checks = []func(*examination){
	configuration, links, running, processor, kernel, afXDP, capabilities, lockedMemory, freeMemory, hugepages,
	stateDirectory, controlSocket, clock, cpus,
	processorShare, transmission, metrics, devices, loopGap,
}

// Examine makes all checks.
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

// quoted makes one word of a shell's command of a text: a device may be called $x or a;b.
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

// in returns a line of the configuration as it has to be where a mapping is, given by pointer into
// the Config, or, if the file does not have that mapping, would be.
func (e *examination) in(mapping any, name, line string) string {
	if e.Config.Given(mapping) {
		return line
	}
	return fmt.Sprintf("%s: {%s}", name, line)
}
