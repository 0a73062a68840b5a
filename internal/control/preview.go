package control

import (
	"context"
	"fmt"
	"slices"

	"sluice/internal/config"
	"sluice/internal/fcoe/snoop"
)

// Preview is what a reload of a file would do.
type Preview struct {
	Changes  []string       `json:"changes,omitempty"` // what it does to ports and VLANs, such as "adds port eth1"
	Sessions *int           `json:"sessions"`          // FCoE sessions now; null: FIP snooping is off
	Ending   []snoop.Ending `json:"ending,omitempty"`  // those that it ends, by reason
}

// Preview returns what Reload would do, and changes nothing. It fails if Reload would refuse the
// configuration. Any goroutine may call it while Run runs.
func (s *Switch) Preview(ctx context.Context, next *config.Config) (p *Preview, err error) {
	err = s.order(ctx, func() (err error) {
		p, err = s.preview(next)
		return err
	})
	return p, err
}

func (s *Switch) preview(file *config.Config) (*Preview, error) {
	f, ending, err := s.admit(file)
	if err != nil {
		return nil, err
	}
	if _, _, err := s.prepare(f.config); err != nil {
		return nil, err
	}
	p := &Preview{Ending: ending}
	add := func(format string, args ...any) { p.Changes = append(p.Changes, fmt.Sprintf(format, args...)) }
	for i := range f.config.Ports {
		if device := f.config.Ports[i].Device; s.port(device) == nil {
			add("adds port %s", device)
		}
	}
	for _, port := range s.leaving(f.config) {
		add("removes port %s", port.Device)
	}
	for _, device := range f.misfits {
		add("holds port %s down: the file does not fit the rate of its link", device)
	}
	for _, r := range f.refusals {
		add("refuses what DCBX agreed on: %s of port %s: %s", r.feature, r.device, r.why)
	}
	if known := s.fsb.Report(); known != nil {
		p.Sessions = new(len(known.Sessions))
	} else if len(f.config.FCoE.Instances) > 0 {
		add("drops FCoE in VLANs without an instance from then on: give each VLAN that has FCoE an instance")
	}
	for _, in := range f.config.FCoE.Instances {
		same := func(is config.FCoEInstance) bool { return is.VLAN == in.VLAN }
		if !slices.ContainsFunc(s.config.FCoE.Instances, same) {
			add("begins FIP snooping on VLAN %d: hosts that are logged in there lose their sessions until they log in "+
				"again", in.VLAN)
		}
	}
	return p, nil
}
