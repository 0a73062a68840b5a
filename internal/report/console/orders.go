package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// StormOrder begins a pause storm in classes of a port, whatever the link partner does, or ends it.
type StormOrder struct {
	Device string `json:"device"`
	CoS    []int  `json:"cos"`
	On     bool   `json:"on"`
}

// PortOrder takes a port out of service, or puts it back.
type PortOrder struct {
	Device string `json:"device"`
	Shut   bool   `json:"shut"`
}

// PortDone is the result of a PortOrder. A port that can't be opened is an error, and the switch
// tries again.
type PortDone struct {
	Device string `json:"device"`
	Shut   bool   `json:"shut"`
	Waits  string `json:"waits"` // what an opened port waits for: its device, or its link; empty: nothing
}

// FDBOrder selects the learned FDB entries to delete.
type FDBOrder struct {
	Device string `json:"device"` // empty: of all ports
	VLAN   uint16 `json:"vlan"`   // 0: of all VLANs
}

// Cleared is what was cleared, and when.
type Cleared struct {
	What string    `json:"cleared"` // counters, watermarks or fdb
	At   time.Time `json:"at"`
}

// ClearWatermarks restarts all peaks from the current usage.
func (c *Client) ClearWatermarks(ctx context.Context) (*Cleared, error) {
	return ask[Cleared](ctx, c, http.MethodPost, "/v1/watermarks/clear", nil)
}

// ClearCounters makes reports count from zero. Prometheus counters go on.
func (c *Client) ClearCounters(ctx context.Context) (*Cleared, error) {
	return ask[Cleared](ctx, c, http.MethodPost, "/v1/counters/clear", nil)
}

// ClearFDB deletes learned FDB entries.
func (c *Client) ClearFDB(ctx context.Context, order FDBOrder) (*Cleared, error) {
	return ask[Cleared](ctx, c, http.MethodPost, "/v2/fdb/clear", order)
}

// Storm begins a pause storm in classes of a port, or ends it. It returns the order as carried out.
func (c *Client) Storm(ctx context.Context, order StormOrder) (*StormOrder, error) {
	return ask[StormOrder](ctx, c, http.MethodPost, "/v1/storm", order)
}

// Port takes a port out of service, or puts it back. It also returns an error if a port is no
// longer shut but could not be opened.
func (c *Client) Port(ctx context.Context, order PortOrder) (*PortDone, error) {
	return ask[PortDone](ctx, c, http.MethodPost, "/v1/port", order)
}

// readOrder decodes the body of a request. Its error is a badOrder.
func readOrder[Order any](r *http.Request) (o Order, err error) {
	body := json.NewDecoder(r.Body)
	body.DisallowUnknownFields()
	if err := body.Decode(&o); err != nil {
		return o, badOrder{fmt.Errorf("the request can't be read: %w", err)}
	}
	if _, err := body.Token(); err != io.EOF {
		return o, badOrder{errors.New("the request has data after its end")}
	}
	return o, nil
}

func (s *Server) clearWatermarks(r *http.Request) (any, error) {
	err := s.sw.ClearWatermarks(r.Context())
	return Cleared{"watermarks", time.Now()}, err
}

func (s *Server) clearCounters(r *http.Request) (any, error) {
	err := s.sw.ClearCounters(r.Context())
	return Cleared{"counters", time.Now()}, err
}

func (s *Server) clearFDB(r *http.Request) (any, error) {
	o, err := readOrder[FDBOrder](r)
	if err != nil {
		return nil, err
	}
	if o.VLAN > 4094 {
		return nil, badOrder{fmt.Errorf("VLAN %d does not exist: choose 1 to 4094", o.VLAN)}
	}
	err = s.sw.ClearFDB(r.Context(), o.Device, o.VLAN)
	return Cleared{"fdb", time.Now()}, err
}

func (s *Server) port(r *http.Request) (any, error) {
	o, err := readOrder[PortOrder](r)
	if err != nil {
		return nil, err
	}
	done := PortDone{Device: o.Device, Shut: o.Shut}
	if o.Shut {
		return done, s.sw.Shut(r.Context(), o.Device)
	}
	done.Waits, err = s.sw.Open(r.Context(), o.Device)
	return done, err
}

// storm begins a pause storm in classes of a port, or ends it.
func (s *Server) storm(r *http.Request) (any, error) {
	o, err := readOrder[StormOrder](r)
	if err != nil {
		return nil, err
	}
	var meant uint8
	for _, cos := range o.CoS {
		if cos < 0 || cos > 7 {
			return nil, badOrder{fmt.Errorf("CoS %d does not exist: choose 0 to 7", cos)}
		}
		meant |= 1 << cos
	}
	if meant == 0 {
		return nil, badOrder{errors.New("the request names no CoS: choose 0 to 7")}
	}
	return o, s.sw.Override(r.Context(), o.Device, meant, o.On)
}
