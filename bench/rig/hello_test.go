package rig

import (
	"context"
	"os"
	"testing"
	"time"
)

func TestHello(t *testing.T) {
	if os.Getenv("SLUICE_RIG") != "1" {
		t.Skip("rigs run by make rig")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	t0 := time.Now()
	g, err := Boot(ctx, Machine{Driver: VirtioNet, NICs: 2}, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("booted in %v: %s, up %v", time.Since(t0), g.Kernel, g.Uptime)
	defer g.Close()
	for _, c := range []string{"ip link; ls -l /bin; free -m; cat /proc/interrupts; dmesg | tail -n 500", "ethtool -i eth0; sluice version; exit 7"} {
		t0 := time.Now()
		r, err := g.Run("sh", "-c", c)
		t.Log(time.Since(t0), err, r.Status, r.Stdout, r.Stderr)
	}
	t.Log(g.Console())
}
