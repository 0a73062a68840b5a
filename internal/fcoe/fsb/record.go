package fsb

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"sluice/internal/fcoe/snoop"
)

// recordVersion is that of the format. Other versions are not read: hosts log in again after an
// update that changes it.
const recordVersion = 1

// maxRecordedPorts bounds the ports of a record: more than a switch can have.
const maxRecordedPorts = 4096

// record is what the file of sessions holds, as JSON: what a running switch has checked, who may
// send FCoE where. It counts only on the boot and in the network namespace in which it was written,
// and whoever restores it checks each session against the configuration again. So a file that is
// old, cut off or forged costs sessions, and admits none that the configuration does not allow.
type record struct {
	Version int            `json:"version"`
	Place   Place          `json:"place"`
	Written int64          `json:"written_ns"` // when, by CLOCK_BOOTTIME, which goes on while the machine sleeps
	Ports   []recordedPort `json:"ports"`      // those that sessions use
	// Sessions has the sessions, and the FCFs and ENodes that they belong to, as of Written.
	Sessions snoop.Snapshot `json:"sessions"`
}

// Place is where names of devices mean what they meant when the record was written.
type Place struct {
	Boot      string `json:"boot"`      // of the kernel: /proc/sys/kernel/random/boot_id
	Namespace uint64 `json:"namespace"` // cookie of the network namespace, never reused: SO_NETNS_COOKIE
}

// recordedPort is a port when the record was written. If it differs now, another cable or device
// may be there, and its sessions are over.
type recordedPort struct {
	Name   string `json:"name"`
	Index  int    `json:"index"`  // of its device
	Losses uint32 `json:"losses"` // of its carrier
	Role   string `json:"role"`
}

// Age returns how long ago a record was written, in ns, at a time of CLOCK_BOOTTIME. It fails if
// the record does not count here.
func (r *record) Age(here Place, now int64) (int64, error) {
	switch {
	case r.Place.Boot != here.Boot:
		return 0, errors.New("is from before the last boot")
	case r.Place.Namespace != here.Namespace:
		return 0, errors.New("is from another network namespace")
	case r.Written < 0 || r.Written > now:
		return 0, errors.New("was written in the future: it is damaged")
	}
	return now - r.Written, nil
}

// encode formats a record.
func encode(r *record) ([]byte, error) {
	r.Version = recordVersion
	text, err := json.Marshal(r)
	if err == nil && len(text) >= maxRecordSize {
		err = fmt.Errorf("%d bytes are more than the %d that can be read again", len(text), maxRecordSize)
	}
	return append(text, '\n'), err
}

// decode reads a record.
func decode(text []byte) (*record, error) {
	if len(text) > maxRecordSize {
		return nil, fmt.Errorf("has more than %d bytes: remove it", maxRecordSize)
	}
	var head struct { // of any version
		Version int `json:"version"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return nil, fmt.Errorf("is damaged: %w", err)
	}
	if head.Version != recordVersion {
		return nil, fmt.Errorf("has version %d of the format, and this program reads version %d", head.Version,
			recordVersion)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	r := new(record)
	if err := d.Decode(r); err != nil {
		return nil, fmt.Errorf("is damaged: %w", err)
	}
	return r, r.check()
}

// check refuses ports that no switch has.
func (r *record) check() error {
	if len(r.Ports) > maxRecordedPorts {
		return fmt.Errorf("is damaged: it has %d ports", len(r.Ports))
	}
	seen := make(map[string]bool)
	for _, p := range r.Ports {
		if p.Name == "" || p.Index <= 0 || seen[p.Name] {
			return fmt.Errorf("is damaged: port %q with index %d", p.Name, p.Index)
		}
		seen[p.Name] = true
	}
	return nil
}
