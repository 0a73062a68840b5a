package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"
)

var txonlyScenario = Scenario{
	Name:  "txonly",
	Shows: "packets/s of frames made in memory into a veth device: the transmitter, and an AF_XDP socket",
	Peers: "testpmd net_af_xdp, mode txonly",
	Run:   runTXOnly,
}

// The subjects.
const (
	txonlyTransmitter = "transmitter"
	txonlySocket      = "socket"
)

const (
	txonlyRate   = "sent"
	txonlyWarmUp = 300 * time.Millisecond
)

func runTXOnly(ctx context.Context, o Options, r *Report) error {
	// As for sluice's own workers: the runtime needs places beside that of a thread which never yields its own.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), 3)))
	x := txonly{Options: o}
	var subjects []Subject
	for _, length := range o.lengths() {
		subjects = append(subjects,
			x.subject(&memorySender{name: txonlyTransmitter, length: length, resident: true}, length, false),
			x.subject(&memorySender{name: txonlySocket, length: length}, length, false))
		if t, err := NewTestpmd(); err == nil {
			t = t.sending(length)
			subjects = append(subjects, x.subject(t, length, true))
			defer func() {
				r.Machine.addVersion(t.Name(), t.Version())
				r.noteSetup(fmt.Sprintf("%s with %d B", t.Name(), wireLength(length)), t)
			}()
		} else {
			r.Missing("testpmd", err.Error())
		}
		announceTXOnly(r, length)
	}
	r.Note("Packets/s are counted by an XDP program on the peer of the device, so what was lost does not count. It runs on the CPU of whoever " +
		"gives the device its frames.")
	r.Note("The socket and testpmd (txonly, one lcore) each have one CPU. The transmitter has one, too, and the program that hands it descriptors " +
		"has another: in a switch that is the worker's, which needs it to forward, and here does nothing else.")
	r.Note("Frames are written once and sent again and again, by us 64 a burst, by testpmd, which makes headers anew for each, 32.")
	return r.Interleave(ctx, o, subjects)
}

// announceTXOnly asks for the ratios.
func announceTXOnly(r *Report, length int) {
	size := wireLength(length)
	r.Compare(fmt.Sprintf("vs_testpmd_%dB", size), of(txonlyRate, length), txonlyTransmitter, "testpmd", Higher)
	r.Compare(fmt.Sprintf("vs_socket_%dB", size), of(txonlyRate, length), txonlyTransmitter, txonlySocket, Higher)
	r.Compare(fmt.Sprintf("socket_vs_testpmd_%dB", size), of(txonlyRate, length), txonlySocket, "testpmd", Higher)
}

// txonly measures senders.
type txonly struct{ Options }

// subject returns a sender as a subject.
func (x *txonly) subject(s Forwarder, length int, peer bool) Subject {
	return Subject{
		Name: s.Name(), Metric: of(txonlyRate, length), Unit: "packets/s", Peer: peer,
		Measure: func(ctx context.Context) (float64, map[string]float64, error) { return x.measure(ctx, s) },
	}
}

// measure returns how many packets/s of a sender arrive. Like overload, it repeats what others disturb.
func (x *txonly) measure(ctx context.Context, s Forwarder) (rate float64, detail map[string]float64, err error) {
	b, err := newBed(bedParams{ports: 1, cpus: x.CPUs})
	if err != nil {
		return 0, nil, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	if err := s.Start(ctx, b.site); err != nil {
		return 0, nil, err
	}
	b.forwarder = s
	if err := x.awaitArrival(ctx, b); err != nil {
		return 0, nil, err
	}
	attempts := liveAttempts(x.Options)
	for attempt := 1; attempt <= attempts; attempt++ {
		f, err := x.count(ctx, b)
		if err != nil {
			return 0, nil, err
		}
		if detail == nil || f["disturbed"] < detail["disturbed"] {
			detail = f
		}
		if detail["attempts"] = float64(attempt); detail["disturbed"] <= disturbed {
			break
		}
	}
	if m, ok := s.(*memorySender); ok {
		detail["lost"] = float64(m.lost())
	}
	return detail["count"] / detail["seconds"], detail, nil
}

// awaitArrival waits for the first frame, and a little longer.
func (x *txonly) awaitArrival(ctx context.Context, b *bed) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for b.sinks[0].Read().Unknown == 0 {
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return fmt.Errorf("not a frame has come: %w", err)
		}
	}
	return pause(ctx, txonlyWarmUp)
}

// count counts what arrives in a trial. They are no test frames, but testpmd's or as much to the sink.
func (x *txonly) count(ctx context.Context, b *bed) (map[string]float64, error) {
	threads := b.forwarder.(interface {
		Threads() (map[string]Thread, error)
	})
	before, err := threads.Threads()
	if err != nil {
		return nil, err
	}
	from, first := time.Now(), b.sinks[0].Read().Unknown
	if err := pause(ctx, x.Duration); err != nil {
		return nil, err
	}
	elapsed, last := time.Since(from), b.sinks[0].Read().Unknown
	after, err := threads.Threads()
	if err != nil {
		return nil, err
	}
	if last == first {
		return nil, fmt.Errorf("not a frame came in %v, though some had before", x.Duration)
	}
	var without, ran time.Duration
	for number, t := range after {
		if used := t.Ran - before[number].Ran; used > elapsed/2 { // the others sleep
			without = max(without, withoutCPU(elapsed, t.since(before[number])))
			ran += used
		}
	}
	return map[string]float64{
		"seconds": elapsed.Seconds(), "count": float64(last - first), "disturbed": without.Seconds() / elapsed.Seconds(),
		"CPU ns/frame": float64(ran.Nanoseconds()) / float64(last-first),
	}, nil
}
