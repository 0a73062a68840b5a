//go:build !amd64

package confine

// refusedHere are further ones of refused: of other architectures none.
var refusedHere []uint32
