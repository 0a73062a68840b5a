package veth

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"sluice/bench/compare"
	"sluice/bench/compare/bed"
)

// TXOnly is the rate at which frames can be sent to a device.
var TXOnly = compare.Scenario{
	Name: "txonly",
	Shows: "packets/s sent from memory into a veth device, by the transmitter and by an AF_XDP " +
		"socket",
	Peers:   "testpmd net_af_xdp, mode txonly",
	Longest: 1518,
	Run:     runTXOnly,
}

// Subjects.
const (
	txonlyTransmitter = "transmitter"
	txonlySocket      = "socket"
)

const (
	txonlyRate   = "sent"
	txonlyWarmUp = 300 * time.Millisecond
)

func runTXOnly(ctx context.Context, o compare.Options, r *compare.Report) error {
	// As for the workers of sluice: the thread never yields its P, so the runtime needs more of
	// them.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), 3)))
	x := txonly{Options: o}
	var subjects []compare.Subject
	for _, length := range lengths(&o) {
		subjects = append(subjects,
			x.subject(&memorySender{name: txonlyTransmitter, length: length, byTransmitter: true}, length, false),
			x.subject(&memorySender{name: txonlySocket, length: length}, length, false))
		if t, err := bed.NewTestpmd(); err == nil {
			t = t.Sending(length)
			subjects = append(subjects, x.subject(t, length, true))
			defer func() {
				r.Machine.AddVersion(t.Name(), t.Version())
				bed.NoteSetup(r, fmt.Sprintf("%s with %d B", t.Name(), wireLength(length)), t)
			}()
		} else {
			r.Missing("testpmd", err.Error())
		}
		announceTXOnly(r, length)
	}
	r.Note("An XDP program on the device's peer counts the packets, so lost frames do not count. " +
		"It runs on the CPU of the thread that gives the device its frames.")
	r.Note("The socket and testpmd (txonly, one lcore) each have one CPU. The transmitter has " +
		"one, too, and the program that hands it descriptors has another. In a switch, that is " +
		"the worker's CPU, which the worker needs to forward; here it does nothing else.")
	r.Note("Frames are written once and sent repeatedly: 64 per burst by Sluice, and 32 by " +
		"testpmd, which makes new headers for each.")
	return r.Interleave(ctx, o, subjects)
}

// announceTXOnly requests the ratios.
func announceTXOnly(r *compare.Report, length int) {
	size := wireLength(length)
	r.Compare(fmt.Sprintf("vs_testpmd_%dB", size), of(txonlyRate, length), txonlyTransmitter, "testpmd", compare.Higher)
	r.Compare(fmt.Sprintf("vs_socket_%dB", size), of(txonlyRate, length), txonlyTransmitter, txonlySocket,
		compare.Higher)
	r.Compare(fmt.Sprintf("socket_vs_testpmd_%dB", size), of(txonlyRate, length), txonlySocket, "testpmd",
		compare.Higher)
}

// txonly measures senders.
type txonly struct{ compare.Options }

// subject returns a sender as a subject.
func (x *txonly) subject(s bed.Forwarder, length int, peer bool) compare.Subject {
	return compare.Subject{
		Name: s.Name(), Metric: of(txonlyRate, length), Unit: "packets/s", Peer: peer,
		Measure: func(ctx context.Context) (float64, map[string]float64, error) { return x.Measure(ctx, s) },
	}
}

// Measure returns the packets/s of a sender that arrive. Like Overload, it repeats disturbed
// trials.
func (x *txonly) Measure(ctx context.Context, s bed.Forwarder) (rate float64, detail map[string]float64, err error) {
	b, err := bed.New(bed.Params{Ports: 1, CPUs: x.CPUs})
	if err != nil {
		return 0, nil, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	if err := s.Start(ctx, b.Site); err != nil {
		return 0, nil, err
	}
	b.Forwarder = s
	if err := x.awaitArrival(ctx, b); err != nil {
		return 0, nil, err
	}
	attempts := compare.LiveAttempts(x.Options)
	for attempt := 1; attempt <= attempts; attempt++ {
		f, err := x.count(ctx, b)
		if err != nil {
			return 0, nil, err
		}
		if detail == nil || f["disturbed"] < detail["disturbed"] {
			detail = f
		}
		if detail["attempts"] = float64(attempt); detail["disturbed"] <= compare.Disturbed {
			break
		}
	}
	if m, ok := s.(*memorySender); ok {
		detail["lost"] = float64(m.lost())
	}
	return detail["count"] / detail["seconds"], detail, nil
}

// awaitArrival waits for the first frame, and a little longer.
func (x *txonly) awaitArrival(ctx context.Context, b *bed.Bed) error {
	ctx, cancel := context.WithTimeout(ctx, bed.StartLimit)
	defer cancel()
	for b.Sinks[0].Read().Unknown == 0 {
		if err := bed.Pause(ctx, 5*time.Millisecond); err != nil {
			return fmt.Errorf("no frame has arrived: %w", err)
		}
	}
	return bed.Pause(ctx, txonlyWarmUp)
}

// count counts the frames that arrive in a trial. For the sink they are not test frames: testpmd
// makes its own, and so does memorySender.
func (x *txonly) count(ctx context.Context, b *bed.Bed) (map[string]float64, error) {
	threads := b.Forwarder.(interface {
		Threads() (map[string]bed.Thread, error)
	})
	before, err := threads.Threads()
	if err != nil {
		return nil, err
	}
	from, first := time.Now(), b.Sinks[0].Read().Unknown
	if err := bed.Pause(ctx, x.Duration); err != nil {
		return nil, err
	}
	elapsed, last := time.Since(from), b.Sinks[0].Read().Unknown
	after, err := threads.Threads()
	if err != nil {
		return nil, err
	}
	if last == first {
		return nil, fmt.Errorf("no frame arrived in %v, although some had before", x.Duration)
	}
	var without, ran time.Duration
	for number, t := range after {
		if used := t.Ran - before[number].Ran; used > elapsed/2 { // the other threads sleep
			without = max(without, bed.WithoutCPU(elapsed, t.Since(before[number])))
			ran += used
		}
	}
	return map[string]float64{
		"seconds": elapsed.Seconds(), "count": float64(last - first),
		"disturbed":    without.Seconds() / elapsed.Seconds(),
		"CPU ns/frame": float64(ran.Nanoseconds()) / float64(last-first),
	}, nil
}
