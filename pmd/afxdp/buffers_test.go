package afxdp

import (
	"strings"
	"testing"
)

// TestUsable: igb, igc and ixgbe fill whole KiB of a buffer in zero-copy mode, unknown drivers are
// taken to fill a power of two.
func TestUsable(t *testing.T) {
	for _, test := range []struct {
		driver           string
		size, bytes, mtu int
	}{
		{"virtio_net", 2048, 1664, 1646}, {"i40e", 2048, 1664, 1646}, {"ice", 4096, 3712, 3694},
		{"igb", 2048, 1024, 1006}, {"igb", 4096, 3072, 3054}, {"igc", 2048, 1024, 1006}, {"ixgbe", 4096, 3072, 3054},
		{"other", 2048, 1024, 1006}, {"", 4096, 2048, 2030},
	} {
		if n := usable(test.driver, room(test.size)); n != test.bytes {
			t.Errorf("%s fills %d of %d, not %d", test.driver, n, test.size, test.bytes)
		}
		if n := MaxZeroCopyMTU(test.driver, test.size); n != test.mtu {
			t.Errorf("%s: an MTU of %d with %d, not %d", test.driver, n, test.size, test.mtu)
		}
	}
}

// TestZeroCopyNeedsWholeFrames: the error names the driver, the numbers and the fix. The index is of
// no device, so whether it has zero-copy is unknown.
func TestZeroCopyNeedsWholeFrames(t *testing.T) {
	d := device{driver: "igb", mtu: 1500, index: 1 << 30}
	if err := d.checkZeroCopy(4096); err != nil {
		t.Error(err)
	}
	err := d.checkZeroCopy(2048)
	for _, word := range []string{"igb", "1024", "2048", "1006", "1500", "memory.buffer_size to 4096B"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%v does not say %q", err, word)
		}
	}
	d.mtu = 1006
	if err := d.checkZeroCopy(2048); err != nil {
		t.Error(err)
	}
}
