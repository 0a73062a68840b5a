package traffic

import (
	"bytes"
	"os"
	"testing"
)

// TestLayoutIsTestpmds compares with the output of testpmd of DPDK 22.11 (--forward-mode=csum on
// two net_null ports) with these counts.
func TestLayoutIsTestpmds(t *testing.T) {
	c := Counters{RXPackets: 126121376, TXPackets: 126121376}
	var got bytes.Buffer
	WriteForward(&got, "csum", []Counters{c, c})
	compare(t, got.Bytes(), "testdata/forward.txt")

	got.Reset()
	last := []Counters{{RXPackets: 84000512 - 21030932, TXPackets: 83550432 - 21030916},
		{RXPackets: 84028832 - 21030928, TXPackets: 83550624 - 21030912}}
	WriteNIC(&got, []Counters{{RXPackets: 84000512, TXPackets: 83550432}, {RXPackets: 84028832, TXPackets: 83550624}},
		last, 1)
	compare(t, got.Bytes(), "testdata/nic.txt")
}

func compare(t *testing.T, got []byte, file string) {
	t.Helper()
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s:\n%s\nwant\n%s", file, got, want)
	}
}
