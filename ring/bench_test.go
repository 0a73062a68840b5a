package ring

import (
	"fmt"
	"runtime"
	"testing"
)

// value has the size of an xdp_desc.
type value struct {
	_ uint64
	_ uint32
	_ uint32
}

const benchSize = 2048

func benchRing(b *testing.B) *Ring[value] {
	r, err := New[value](benchSize)
	if err != nil {
		b.Fatal(err)
	}
	return r
}

// perValue reports the time per value; an operation is a burst.
func perValue(b *testing.B, burst int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(burst), "ns/value")
}

// BenchmarkOneCore pushes a burst and pops it again.
func BenchmarkOneCore(b *testing.B) {
	for _, burst := range []int{1, 32, 64} {
		b.Run(fmt.Sprintf("ring/burst=%d", burst), func(b *testing.B) {
			r, values := benchRing(b), make([]value, burst)
			for b.Loop() {
				r.Push(values)
				r.Pop(values)
			}
			perValue(b, burst)
		})
	}
	b.Run("channel", func(b *testing.B) {
		c := make(chan value, benchSize)
		for b.Loop() {
			c <- value{}
			<-c
		}
		perValue(b, 1)
	})
}

// BenchmarkTwoCores pushes in one goroutine and pops in another.
func BenchmarkTwoCores(b *testing.B) {
	for _, burst := range []int{1, 32, 64} {
		b.Run(fmt.Sprintf("ring/burst=%d", burst), func(b *testing.B) {
			r, total := benchRing(b), b.N*burst
			b.ResetTimer()
			go func() {
				values := make([]value, burst)
				for sent := 0; sent < total; {
					n := r.Push(values[:min(burst, total-sent)])
					if n == 0 {
						runtime.Gosched()
					}
					sent += n
				}
			}()
			values := make([]value, burst)
			for got := 0; got < total; {
				n := r.Pop(values)
				if n == 0 {
					runtime.Gosched()
				}
				got += n
			}
			perValue(b, burst)
		})
	}
	b.Run("channel", func(b *testing.B) {
		c := make(chan value, benchSize)
		b.ResetTimer()
		go func() {
			for range b.N {
				c <- value{}
			}
		}()
		for range b.N {
			<-c
		}
		perValue(b, 1)
	})
}
