package doctor

import (
	"context"
	"net"
	"net/http"
	"path/filepath"
	"testing"
)

// TestAsk asks a switch that answers as the control socket does, one that refuses, and none.
func TestAsk(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "sluice.sock")
	if _, err := Ask(context.Background(), socket); err == nil {
		t.Error("nobody has answered")
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	refuses := false
	server := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case refuses:
			http.Error(w, `{"error": "not now"}`, http.StatusServiceUnavailable)
		case r.Method == http.MethodGet && r.URL.Path == "/v1/state":
			_, _ = w.Write([]byte(`{"lossless_drops": 2, "configuration": {"file": "/etc/sluice/switch.yaml", "generation": 3},
				"ports": [{"name": "eth1", "up": true, "mode": "zero-copy", "pfc": {"received": 7, "frames": 1}}],
				"workers": [{"cpu": 5, "gap_max_us": 12.5}], "unknown": [1, 2]}`))
		default:
			http.NotFound(w, r)
		}
	})}
	go server.Serve(l)
	defer server.Close()
	r, err := Ask(context.Background(), socket)
	if err != nil {
		t.Fatal(err)
	}
	p := r.port("eth1")
	if r.LosslessDrops != 2 || r.Configuration.File != "/etc/sluice/switch.yaml" || r.Workers[0] != (RunningWorker{5, 12.5}) ||
		p == nil || !p.Up || p.Mode != "zero-copy" || p.PFC.Received != 7 || r.port("eth2") != nil {
		t.Errorf("%+v", r)
	}
	refuses = true
	if r, err := Ask(context.Background(), socket); err == nil {
		t.Errorf("a refusal is taken for %+v", r)
	}
}
