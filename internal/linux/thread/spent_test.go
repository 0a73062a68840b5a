package thread

import (
	"os"
	"testing"
	"time"
)

func TestSpent(t *testing.T) {
	directory := t.TempDir()
	if _, _, err := Spent(directory); err == nil {
		t.Error("no file, and no error")
	}
	for text, good := range map[string]bool{"12 34 5\n": true, "12\n": false, "": false} {
		if err := os.WriteFile(directory+"/schedstat", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		ran, waited, err := Spent(directory)
		if good != (err == nil) || good && (ran != 12*time.Nanosecond || waited != 34*time.Nanosecond) {
			t.Errorf("%q: %v, %v, %v", text, ran, waited, err)
		}
	}
}
