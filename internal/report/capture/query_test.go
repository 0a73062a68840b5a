package capture

import (
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/internal/control"
	"sluice/internal/dataplane/tap"
)

// TestQueriesAreReadBack: ParseQuery reads what Values writes.
func TestQueriesAreReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var devices []string
		if names := rapid.SliceOfN(rapid.StringMatching(`[a-z0-9.@:_-]{1,15}`), 0, 3).Draw(t,
			"devices"); len(names) > 0 {
			devices = names
		}
		q := Query{
			CaptureParams: control.CaptureParams{
				Devices: devices, Directions: tap.Direction(rapid.IntRange(0, 3).Draw(t, "direction")),
				CoS: rapid.Uint8().Draw(t, "cos"), Drops: rapid.Bool().Draw(t, "drops"),
				SnapLength: rapid.IntRange(0, maxSnapLength).Draw(t, "snaplen"),
			},
			Count:    rapid.Uint64Range(0, 1<<63).Draw(t, "count"),
			Duration: time.Duration(rapid.Int64Range(0, int64(maxDuration)).Draw(t, "duration")),
			Size:     rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Min(minSize)).Draw(t, "size"),
		}
		v, err := url.ParseQuery(q.Values().Encode())
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseQuery(v)
		if err != nil || !reflect.DeepEqual(got, q) {
			t.Errorf("%+v, %v; was %+v", got, err, q)
		}
	})
}

// TestBadQueries: the error for each names the parameter and says what to write.
func TestBadQueries(t *testing.T) {
	for text, say := range map[string]string{
		"port=eth0":                 `parameter "port" does not exist: choose from [ports direction cos`,
		"ports=":                    "write devices",
		"ports=a,,b":                "write devices",
		"ports=a&ports=b":           "ports is given 2 times",
		"direction=up":              "rx, tx or both",
		"cos=8":                     "from 0 to 7",
		"cos=":                      "from 0 to 7",
		"cos=-1":                    "from 0 to 7",
		"drops=yes":                 "write true",
		"snaplen=0":                 "from 1 to 65536",
		"snaplen=65537":             "from 1 to 65536",
		"count=-5":                  "write a number",
		"count=1e3":                 "write a number",
		"duration=10":               "write a time",
		"duration=-10s":             "write a time",
		"duration=99999h":           "write a time",
		"size=1KB":                  "at least 65536",
		"size=1":                    "at least 65536",
		"size=99999999999999999999": "at least 65536",
	} {
		v, err := url.ParseQuery(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseQuery(v); err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("%s: %v, want %q", text, err, say)
		}
	}
}

// FuzzParseQuery: a query that is accepted is written and read back unchanged.
func FuzzParseQuery(f *testing.F) {
	for _, text := range []string{"", "ports=port1,port2&direction=rx&cos=3,4",
		"drops=true&snaplen=128&count=10&duration=10s&size=1000000", "cos=7,7,0", "%zz", "ports=%00"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := url.ParseQuery(text)
		if err != nil {
			return
		}
		q, err := ParseQuery(v)
		if err != nil {
			return
		}
		again, err := ParseQuery(q.Values())
		if err != nil || !reflect.DeepEqual(again, q) || slices.Contains(q.Devices, "") || q.Duration < 0 ||
			q.Size < 0 || q.SnapLength < 0 {
			t.Errorf("%q is %+v, then %+v, %v", text, q, again, err)
		}
	})
}
