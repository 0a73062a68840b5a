//go:build !amd64 || race

package ring

import "sync/atomic"

// storeRelease stores an index so that whoever loads it sees all that was done before.
func storeRelease(index *atomic.Uint32, v uint32) { index.Store(v) }
