package capture

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/internal/control"
	"sluice/internal/dataplane"
	"sluice/internal/dataplane/tap"
)

// Query asks for a capture: which frames, and how many.
type Query struct {
	control.CaptureParams
	Count    uint64        // frames; 0: no limit
	Duration time.Duration // 0: until it is stopped
	Size     int64         // bytes of the file; 0: no limit
}

// Limits for a query.
const (
	maxSnapLength = 1 << 16 // bytes: more than any frame
	minSize       = 1 << 16 // bytes: head and statistics take 150 per port
	maxDuration   = 366 * 24 * time.Hour
)

var directionNames = map[string]tap.Direction{"rx": tap.RX, "tx": tap.TX,
	"both": tap.RX | tap.TX}

// queryKeys are the parameters of a query in a URL. Each occurs at most once. Those for which write
// returns "" are left out.
var queryKeys = []struct {
	name  string
	write func(*Query) string
	read  func(*Query, string) error
}{
	{"ports", func(q *Query) string { return strings.Join(q.Devices, ",") }, func(q *Query, text string) error {
		q.Devices = strings.Split(text, ",")
		if slices.Contains(q.Devices, "") {
			return fmt.Errorf("write devices, separated by commas")
		}
		return nil
	}},
	{"direction", func(q *Query) string {
		for name, d := range directionNames {
			if q.Directions == d {
				return name
			}
		}
		return ""
	}, func(q *Query, text string) (err error) { q.Directions, err = ParseDirection(text); return err }},
	{"cos", func(q *Query) string { return writeCoS(q.CoS) }, func(q *Query, text string) (err error) {
		q.CoS,
			err = ParseCoS(text)
		return err
	}},
	{"drops", func(q *Query) string { return unless(q.Drops, false) }, func(q *Query, text string) error {
		if q.Drops = text == "true"; !q.Drops {
			return fmt.Errorf("write true, or leave it out")
		}
		return nil
	}},
	{"snaplen", func(q *Query) string { return unless(q.SnapLength, 0) }, func(q *Query, text string) error {
		n, err := number(text, maxSnapLength)
		q.SnapLength = int(n)
		return err
	}},
	{"count", func(q *Query) string { return unless(q.Count, 0) }, func(q *Query, text string) (err error) {
		q.Count, err = number(text, 1<<63)
		return err
	}},
	{"duration", func(q *Query) string { return unless(q.Duration, 0) }, func(q *Query, text string) (err error) {
		if q.Duration, err = time.ParseDuration(text); err != nil || q.Duration <= 0 || q.Duration > maxDuration {
			return fmt.Errorf("write a time such as 10s or 5m, up to %v", maxDuration)
		}
		return nil
	}},
	{"size", func(q *Query) string { return unless(q.Size, 0) }, func(q *Query, text string) error {
		n, err := strconv.ParseInt(text, 10, 64)
		if q.Size = n; err != nil || n < minSize {
			return fmt.Errorf("write a number of bytes, at least %d", minSize)
		}
		return nil
	}},
}

// unless formats a value, or returns "" if it is nothing.
func unless[T comparable](value, nothing T) string {
	if value == nothing {
		return ""
	}
	return fmt.Sprint(value)
}

func number(text string, most uint64) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n == 0 || n > most {
		return 0, fmt.Errorf("write a number from 1 to %d", most)
	}
	return n, nil
}

// ParseDirection reads rx, tx or both.
func ParseDirection(text string) (tap.Direction, error) {
	d, known := directionNames[text]
	if !known {
		return 0, fmt.Errorf("write rx, tx or both")
	}
	return d, nil
}

// ParseCoS reads numbers from 0 to 7, separated by commas, into a set: bit n is CoS n.
func ParseCoS(text string) (set uint8, err error) {
	for item := range strings.SplitSeq(text, ",") {
		n, err := strconv.ParseUint(item, 10, 8)
		if err != nil || n >= dataplane.Priorities {
			return 0, fmt.Errorf("write numbers from 0 to %d, separated by commas, such as 3,4",
				dataplane.Priorities-1)
		}
		set |= 1 << n
	}
	return set, nil
}

func writeCoS(set uint8) string {
	var items []string
	for n := range dataplane.Priorities {
		if set>>n&1 != 0 {
			items = append(items, strconv.Itoa(n))
		}
	}
	return strings.Join(items, ",")
}

// Values returns the query as URL parameters.
func (q *Query) Values() url.Values {
	v := url.Values{}
	for _, k := range queryKeys {
		if text := k.write(q); text != "" {
			v.Set(k.name, text)
		}
	}
	return v
}

// ParseQuery reads what Values writes. Its error names the parameter and says what to write.
func ParseQuery(v url.Values) (q Query, err error) {
	var names []string
	for _, k := range queryKeys {
		names = append(names, k.name)
		texts, given := v[k.name]
		if !given {
			continue
		}
		if len(texts) > 1 {
			return Query{}, fmt.Errorf("capture: %s is given %d times: give it once", k.name, len(texts))
		}
		if err := k.read(&q, texts[0]); err != nil {
			return Query{}, fmt.Errorf("capture: %s %q: %w", k.name, texts[0], err)
		}
	}
	for name := range v {
		if !slices.Contains(names, name) {
			return Query{}, fmt.Errorf("capture: parameter %q does not exist: choose from %v", name, names)
		}
	}
	return q, nil
}
