package journal

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// written returns what has been written up to now.
func written(w *Writer, out *bytes.Buffer) string {
	w.Flush(time.Minute)
	return out.String()
}

func TestLevelAndFormat(t *testing.T) {
	var out bytes.Buffer
	log, w, err := New(&out, slog.LevelError, Text)
	if err != nil {
		t.Fatal(err)
	}
	log.Warn("not this")
	log.Error("this")
	if text := written(w, &out); strings.Contains(text, "not") || !strings.Contains(text, "this") {
		t.Errorf("%q", text)
	}
	out.Reset()
	if log, w, err = New(&out, slog.LevelInfo, JSON); err != nil {
		t.Fatal(err)
	}
	log.With("port", "a").WithGroup("g").Info("this", "x", 1)
	if text := written(w, &out); !json.Valid([]byte(text)) ||
		!strings.Contains(text, `"msg":"this","port":"a","g":{"x":1}`) {
		t.Errorf("%q", text)
	}
	if _, _, err := New(&out, slog.LevelError, "xml"); err == nil || !strings.Contains(err.Error(), "text or json") {
		t.Errorf("of a format that there is not: %v", err)
	}
}
