package live

import (
	"testing"

	"sluice/bench/traffic"
	"sluice/pmd"
)

// wire is a pmd.Port that keeps the frames it sends.
type wire struct {
	memory []byte
	sent   [][]byte
}

func (w *wire) Transmit(burst []pmd.Desc) int {
	for _, d := range burst {
		w.sent = append(w.sent, w.memory[d.Addr:d.Addr+uint64(d.Len)])
	}
	return len(burst)
}

func (w *wire) Fill(addrs []uint64) int      { return len(addrs) }
func (w *wire) Receive(burst []pmd.Desc) int { return 0 }
func (w *wire) Complete(addrs []uint64) int  { return 0 }
func (w *wire) Flush()                       {}
func (w *wire) Waiting() int                 { return 0 }
func (w *wire) Stats() pmd.Stats             { return pmd.Stats{} }

// TestSinkUnderstandsHosts: a sink accepts the frames of package host as test frames, with the same
// stamps.
func TestSinkUnderstandsHosts(t *testing.T) {
	const size, frames = 2048, 8
	_, peer := newCable(t)
	s := newSink(t, peer, peerDevice, SinkParams{Flows: 8})
	w := &wire{memory: make([]byte, 64*size)}
	h, err := traffic.New(traffic.Params{
		Port: w, Memory: w.memory, BufferSize: size, Buffers: 64, MAC: hostMAC, Speed: 1_000_000_000, InFlight: 1 << 20,
		Flows: []traffic.Flow{
			{ID: 5, Dst: peerMAC, VID: 7, PCP: 3, Size: 60, Count: frames},
			{ID: 6, Dst: peerMAC, Size: 1514, Count: frames},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	now := int64(monotonic())
	for end := now + 1e6; now < end; now += 1e5 {
		h.Step(now)
	}
	for _, b := range w.sent {
		give(t, s, b)
	}
	stats := s.Read()
	for id, size := range map[int]uint64{5: 60, 6: 1514} {
		r := &stats.Flows[id]
		if r.Frames != frames || r.Bytes != frames*size || r.First != 0 || r.Next != frames || r.LastSent < now-1e6 ||
			r.LastSent > now {
			t.Errorf("flow %d: %d frames, %d bytes, from %d to %d, the last one sent at %d; now it is %d",
				id, r.Frames, r.Bytes, r.First, r.Next, r.LastSent, now)
		}
	}
	if stats.Unknown+stats.Untracked > 0 {
		t.Errorf("%d unknown, %d untracked", stats.Unknown, stats.Untracked)
	}
}
