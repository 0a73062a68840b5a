package dataplane

import (
	"strings"
	"testing"
)

func TestTooManyPorts(t *testing.T) {
	p := Params{Workers: 1, Ports: make([]PortParams, maxPorts+1)}
	if err := p.check(); err == nil || !strings.Contains(err.Error(), "1025 ports: at most 1024 are possible") {
		t.Errorf("%v", err)
	}
}
