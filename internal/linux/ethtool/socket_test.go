package ethtool

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// TestLongAnswers: a request that is longer than the memory is rejected, and an answer that is
// longer is not written beyond it.
func TestLongAnswers(t *testing.T) {
	s, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	names, err := s.strings("lo", featureNames)
	if err != nil {
		t.Fatal(err)
	}
	s.memory = s.memory[room-1024:]
	if _, err := s.strings("lo", featureNames); !errors.Is(err, unix.E2BIG) {
		t.Errorf("%d names in %d bytes: %v", len(names), len(s.memory), err)
	}
	header := [2]uint32{featureNames, 1} // fewer than exist: a kernel that checks returns none, others write all
	if err := s.ask("lo", getStrings, &header); !errors.Is(err, unix.EFAULT) && (err != nil || header[1] != 0) {
		t.Errorf("%d names, not counted before: %v, %v", len(names), header, err)
	}
}
