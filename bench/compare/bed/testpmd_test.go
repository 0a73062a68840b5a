package bed

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestTestpmdAbsent(t *testing.T) {
	t.Setenv("PATH", "")
	if _, err := NewTestpmd(); !errors.Is(err, ErrAbsent) {
		t.Errorf("without the program: %v", err)
	}
}

func TestTestpmdRates(t *testing.T) {
	var r testpmdRates
	l := lines{watch: r.read}
	text := "\x1b[2J\x1b[1;1H\nPort statistics ====\n  Rx-pps:            0          Rx-bps:            0\n  " +
		"Tx-pps:            0\n  Tx-pps:            0\n" +
		"Port statistics ====\n  Rx-pps:     1   Rx-bps:   0\n  Tx-pps:     22440944          Tx-bps:            " +
		"0\n  Tx-pps:     6          Tx-bps:            0\n" +
		"Port statistics ====\n  Tx-pps:     5"
	for _, b := range []byte(text) {
		l.Write([]byte{b})
	}
	if len(r.complete) != 2 || r.complete[0] != 0 || r.complete[1] != 22440950 {
		t.Errorf("read %v", r.complete)
	}
}

func testpmd(t *testing.T) *Testpmd {
	t.Helper()
	p, err := NewTestpmd()
	if errors.Is(err, ErrAbsent) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestTestpmdNull(t *testing.T) {
	p := testpmd(t)
	rates, err := p.MeasureNull(t.Context(), "macswap", 0, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	if len(rates) != 2 || rates[0] < 1e5 || rates[1] < 1e5 {
		t.Errorf("%v packets/s", rates)
	}
	if !strings.HasPrefix(p.Version(), "DPDK ") {
		t.Errorf("version %q", p.Version())
	}
	t.Logf("%.1f Mpps", rates[0]/1e6)
}

func TestProcess(t *testing.T) {
	var seen []string
	p, err := startProcess(nil, func(line string) { seen = append(seen, line) }, "/bin/sh", "-c",
		"echo one; echo two >&2; exit 3")
	if err != nil {
		t.Fatal(err)
	}
	<-p.exited
	if err := p.Stop(); err == nil || !strings.Contains(err.Error(), "exit status 3") ||
		!strings.Contains(err.Error(), "two") {
		t.Errorf("a process that exited unexpectedly: %v", err)
	}
	if strings.Join(seen, " ") != "one two" {
		t.Errorf("watched %q", seen)
	}

	if p, err = startProcess(nil, nil, "/bin/sleep", "1000"); err != nil {
		t.Fatal(err)
	}
	if threads, err := p.threads(); err != nil || len(threads) != 1 {
		t.Errorf("its threads: %v, %v", threads, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := p.await(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a process that is never ready: %v", err)
	}
	select {
	case <-p.exited:
	default:
		t.Error("it still runs")
	}
	if _, err := startProcess(nil, nil, "/nonexistent"); err == nil {
		t.Error("started a program that is not there")
	}
}
