//go:build !amd64 || race

package ring

import "sync/atomic"

// storeRelease stores an index with release ordering: an end that loads it sees all earlier
// accesses.
func storeRelease(index *atomic.Uint32, v uint32) { index.Store(v) }
