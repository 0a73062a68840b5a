//go:build !amd64

package confine

// refusedHere are further refused calls: none on other architectures.
var refusedHere []uint32
