package capture

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strconv"
	"time"

	"sluice/internal/control"
	"sluice/internal/dataplane/bridge"
	"sluice/internal/dataplane/tap"
)

const (
	// drainBatch is how many frames are written before they are flushed to the reader.
	drainBatch = 1024
	// drainInterval is how long a drain that found nothing sleeps. A worker's ring holds the frames
	// of several such intervals.
	drainInterval = 5 * time.Millisecond
)

// Source is a running capture: *control.Capture.
type Source interface {
	Ports() []control.CapturePort
	PortName(id bridge.PortID) string
	Ended() <-chan struct{}
	Take(most int, see func(at int64, r *tap.Record, frame []byte) error) (int, error)
	Stop() error
	Count(id bridge.PortID) tap.Count
	Close() error
}

// Summary says what a capture has seen. Seen is the sum of the others.
type Summary struct {
	// frames that match the query; if a limit ended the capture, up to the last one of each port in
	// the file
	Seen     uint64 `json:"seen"`
	Captured uint64 `json:"captured"` // in the file
	Beyond   uint64 `json:"beyond"`   // frames beyond what a worker may copy for a capture
	Full     uint64 `json:"full"`     // frames that found no room: the file was not written fast enough
}

// errEnough means that the requested number of frames was captured.
var errEnough = errors.New("capture: the requested number of frames was captured")

// Stream writes what a source captures as a pcapng file until ctx is done, the switch ends, or a
// limit of the query is reached; in all of these cases it returns nil. It calls flush when there is
// something new to read. It stops the source; the caller closes it.
func Stream(ctx context.Context, to io.Writer, flush func() error, source Source, q *Query,
	application string) (Summary, error) {
	if q.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, q.Duration)
		defer cancel()
	}
	s, err := newStream(to, source, q, application)
	if err != nil {
		return Summary{}, errors.Join(err, source.Stop())
	}
	err = s.follow(ctx, flush)
	enough := isEnough(err)
	if err != nil && !enough {
		return Summary{}, errors.Join(err, source.Stop())
	}
	if err := source.Stop(); err != nil {
		return Summary{}, err
	}
	summary, err := s.finish(enough)
	if err != nil {
		return summary, err
	}
	return summary, s.show(flush)
}

// isEnough reports whether a limit of the query was reached.
func isEnough(err error) bool { return errors.Is(err, errEnough) || errors.Is(err, errLimit) }

// stream is a file being written.
type stream struct {
	source  Source
	file    *fileWriter
	out     *bufio.Writer
	count   uint64 // maximum number of frames; 0: no limit
	written uint64 // frames
	began   int64  // ns since 1970
	ports   []streamPort
	index   map[bridge.PortID]int // in ports, by port id
	entry   packet
}

// streamPort is a port and its counts up to its last frame in the file.
type streamPort struct {
	control.CapturePort
	Summary
}

func newStream(to io.Writer, source Source, q *Query, application string) (*stream, error) {
	s := &stream{
		source: source, out: bufio.NewWriterSize(to, 64<<10), count: q.Count, began: time.Now().UnixNano(),
		index: map[bridge.PortID]int{},
	}
	var interfaces []port
	for i, p := range source.Ports() {
		s.ports = append(s.ports, streamPort{CapturePort: p})
		s.index[p.Label] = i
		interfaces = append(interfaces, port{p.Name, p.Speed})
	}
	var err error
	s.file, err = newFileWriter(s.out, application, interfaces, q.SnapLength, q.Size)
	return s, err
}

// show flushes what was written to the reader.
func (s *stream) show(flush func() error) error {
	if err := s.out.Flush(); err != nil {
		return err
	}
	return flush()
}

// follow writes frames as they are captured.
func (s *stream) follow(ctx context.Context, flush func() error) error {
	rest := time.NewTicker(drainInterval)
	defer rest.Stop()
	for fresh := true; ; { // a reader learns at once that the capture has begun
		if fresh {
			if err := s.show(flush); err != nil {
				return err
			}
		}
		n, err := s.source.Take(drainBatch, s.write)
		if err != nil {
			return err
		}
		if fresh = n > 0; n == drainBatch && ctx.Err() == nil {
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.source.Ended():
			return nil
		case <-rest.C:
		}
	}
}

// write writes one frame, or fails with errEnough or errLimit.
func (s *stream) write(at int64, r *tap.Record, frame []byte) error {
	i := s.index[r.Port]
	p, of := &s.entry, &s.ports[i]
	p.port, p.at, p.length, p.data, p.inbound, p.lost = i, at, int(r.Length), frame, r.Direction == tap.RX,
		r.Beyond+r.Full
	p.comment = appendComment(p.comment[:0], r, s.source.PortName)
	if err := s.file.packet(p); err != nil {
		return err
	}
	of.Captured, of.Beyond, of.Full = of.Captured+1, of.Beyond+uint64(r.Beyond), of.Full+uint64(r.Full)
	if s.written++; s.written == s.count {
		return errEnough
	}
	return nil
}

// finish writes the waiting frames and the statistics. If enough, a limit of frames or bytes was
// reached: further frames were not asked for.
func (s *stream) finish(enough bool) (sum Summary, err error) {
	for n := 1; n > 0 && !enough; {
		n, err = s.source.Take(drainBatch, s.write)
		if enough = isEnough(err); err != nil && !enough {
			return sum, err
		}
	}
	now := time.Now().UnixNano()
	for i := range s.ports {
		p := &s.ports[i]
		if !enough { // include losses after the last frame in the file
			n := s.source.Count(p.Label)
			p.Beyond, p.Full = n.Beyond, n.Full
		}
		p.Seen = p.Captured + p.Beyond + p.Full
		sum.add(&p.Summary)
		err := s.file.statistics(i, statistics{from: s.began, to: now, accepted: p.Seen, lost: p.Beyond + p.Full,
			delivered: p.Captured})
		if err != nil {
			return sum, err
		}
	}
	return sum, nil
}

func (s *Summary) add(of *Summary) {
	s.Seen, s.Captured, s.Beyond, s.Full = s.Seen+of.Seen, s.Captured+of.Captured, s.Beyond+of.Beyond, s.Full+of.Full
}

// appendComment appends what the switch did with a packet, for the packet's comment:
// "verdict=dropped reason=queue_full port=port3 direction=tx cos=0 queue=0 from=port1".
func appendComment(b []byte, r *tap.Record, name func(bridge.PortID) string) []byte {
	b = append(append(b, "verdict="...), r.Verdict.String()...)
	if r.Verdict == tap.Dropped {
		b = append(append(b, " reason="...), r.Reason()...)
	}
	b = append(append(b, " port="...), name(r.Port)...)
	b = append(append(b, " direction="...), r.Direction.String()...)
	switch {
	case r.Class != tap.NoClass:
		b = strconv.AppendInt(append(b, " cos="...), int64(r.Class), 10)
	case r.Control != tap.NoControl:
		b = append(append(b, " control="...), r.Control.String()...)
	}
	if r.Queue != tap.NoQueue {
		b = strconv.AppendInt(append(b, " queue="...), int64(r.Queue), 10)
	}
	if r.Other != tap.NoPort {
		key := " from="
		if r.Direction == tap.RX {
			key = " to="
		}
		b = append(append(b, key...), name(r.Other)...)
	}
	return b
}
