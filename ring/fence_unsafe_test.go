package ring

import (
	"runtime"
	"sync/atomic"
	"testing"
	"unsafe"
)

// TestSubmitBeforeNeedWakeup: a producer that submits and then reads the need-wakeup flag, beside a
// kernel that sets the flag and then reads the producer's index, must not both see the old value:
// the frames would wait for a wake-up that nobody sends. Processors let a load overtake earlier
// stores unless there is a fence. Here they have the time to: the slots that the producer writes
// first are in no cache.
func TestSubmitBeforeNeedWakeup(t *testing.T) {
	if runtime.GOMAXPROCS(0) < 2 {
		t.Skip("needs two CPUs")
	}
	type line [64]byte
	const size, burst, rounds = 1 << 17, 4, 20_000
	mem := make([]byte, int(testLayout.Slots)+size*int(unsafe.Sizeof(line{})))
	r, err := Over[line](mem, testLayout, size)
	if err != nil {
		t.Fatal(err)
	}
	index := func(at uint64) *atomic.Uint32 { return (*atomic.Uint32)(unsafe.Pointer(&mem[at])) }
	produced, consumed := index(testLayout.Producer), index(testLayout.Consumer)
	var begin, end, flag struct {
		atomic.Uint32
		_ [apart]byte
	}
	var asked bool // what the producer read from the flag; it belongs to the kernel when end is the round
	go func() {
		for round := uint32(1); round <= rounds; round++ {
			slots, _ := r.Reserve(burst)
			for flag.Load(); begin.Load() != round; { // the flag is in the cache
			}
			for i := range slots {
				slots[i][0] = byte(round)
			}
			r.Submit(burst)
			asked = flag.Load() != 0
			end.Store(round)
		}
	}()
	missed := 0
	for round := uint32(1); round <= rounds; round++ {
		begin.Store(round)
		for range round % 128 { // until the producer submits, more or less
			begin.Load()
		}
		flag.Store(1)
		found := produced.Load() == round*burst
		for end.Load() != round {
		}
		if !found && !asked {
			missed++
		}
		flag.Store(0)
		consumed.Store(round * burst)
	}
	if missed > 0 {
		t.Errorf("in %d of %d rounds the kernel slept and no wake-up was due", missed, rounds)
	}
}
