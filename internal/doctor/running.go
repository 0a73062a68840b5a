package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// Running is what a running switch says of itself, as far as it matters here: part of its report (GET /v1/state).
type Running struct {
	LosslessDrops uint64 `json:"lossless_drops"`
	Configuration struct {
		File string `json:"file"`
	} `json:"configuration"`
	Ports   []RunningPort   `json:"ports"`
	Workers []RunningWorker `json:"workers"`
}

// RunningPort is a port of a running switch.
type RunningPort struct {
	Name string `json:"name"`
	Up   bool   `json:"up"`
	Mode string `json:"mode"` // zero-copy, copy (native), copy (generic), or absent
	PFC  struct {
		Received uint64 `json:"received"` // frames
	} `json:"pfc"`
}

// RunningWorker is a worker of a running switch.
type RunningWorker struct {
	CPU    int     `json:"cpu"`
	GapMax float64 `json:"gap_max_us"`
}

// Ask asks the switch that listens on a socket for its report. It fails if none does.
func Ask(ctx context.Context, socket string) (*Running, error) {
	const patience, most = 5 * time.Second, 16 << 20
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://switch/v1/state", nil)
	if err != nil {
		return nil, err
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: the switch answers %s", socket, answer.Status)
	}
	r := new(Running)
	return r, json.NewDecoder(io.LimitReader(answer.Body, most)).Decode(r)
}

// port returns what a running switch says of a port; nil if there is no such switch or port.
func (r *Running) port(device string) *RunningPort {
	if r == nil {
		return nil
	}
	for i := range r.Ports {
		if r.Ports[i].Name == device {
			return &r.Ports[i]
		}
	}
	return nil
}
