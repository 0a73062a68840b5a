package bed

import (
	"strings"
	"testing"

	"sluice/internal/config"
)

// TestFallbackIsTold has a switch report ports served by their sockets.
func TestFallbackIsTold(t *testing.T) {
	r := NewTransmitterSluice(VethTransmitter, "", TransmitterConfig)
	r.watch("port open")
	if said := r.Fallback(); said != "" {
		t.Error(said)
	}
	r.watch("WARN port switched to its socket port=s1")
	if said := r.Fallback(); !strings.Contains(said, "port=s1") || r.Fallback() != "" {
		t.Error(said)
	}
}

func TestTransmitterConfig(t *testing.T) {
	site := Site{Devices: []string{"s0", "s1"}, CPU: 1, OtherCPU: 0}
	c, err := config.Parse("test", []byte(TransmitterConfig(site)))
	if err != nil {
		t.Fatal(err)
	}
	if c.Transmitter.CPU != site.CPU || !c.SharesCPU(c.Workers) || c.Ports[1].TX != config.TXTransmitter {
		t.Errorf("%+v", c.Transmitter)
	}
}

func TestWireConfig(t *testing.T) {
	site := Site{Devices: []string{"s0", "s1"}, CPU: 1, MTU: 1500}
	c, err := config.Parse("test", []byte(WireConfig(site)))
	if err != nil {
		t.Fatal(err)
	}
	site.MTU = 9000
	for _, text := range []string{WireConfig(site), LosslessWireConfig(10e9)(site)} {
		if jumbo, err := config.Parse("test", []byte(text)); err != nil || jumbo.Ports[1].MTU != 9000 ||
			jumbo.Memory.BufferSize != 4096 || c.Memory.BufferSize != 2048 {
			t.Errorf("%+v, %v", jumbo, err)
		}
	}
	if len(c.Workers) != 1 || c.Workers[0] != 1 || c.Ports[0].Peer != 1 || c.Ports[1].Peer != 0 ||
		c.Ports[1].Device != "s1" {
		t.Errorf("%+v", c)
	}
}
