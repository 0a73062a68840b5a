package config

import (
	"fmt"
	"math"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Numbers with a unit against exact rational arithmetic.
func TestQuantity(t *testing.T) {
	units := slices.Concat(sizeUnits, rateUnits, timeUnits)
	rapid.Check(t, func(t *rapid.T) {
		u := rapid.SampledFrom(units).Draw(t, "unit")
		number := rapid.StringMatching(`[0-9]{1,10}(\.[0-9]{1,8})?`).Draw(t, "number")
		value, ok := new(big.Rat).SetString(number)
		if !ok {
			t.Fatalf("%s is no number", number)
		}
		value.Mul(value, new(big.Rat).SetInt(new(big.Int).SetUint64(u.factor)))
		got, problem := quantity(number+u.suffix, units)
		switch {
		case !value.IsInt():
			if problem != "is not a whole number in the smallest unit" {
				t.Fatalf("%s%s: %d, %q", number, u.suffix, got, problem)
			}
		case !value.Num().IsUint64():
			if problem != "is too large" {
				t.Fatalf("%s%s: %d, %q", number, u.suffix, got, problem)
			}
		case problem != "" || got != value.Num().Uint64():
			t.Fatalf("%s%s: %d, %q, want %s", number, u.suffix, got, problem, value.Num())
		}
	})
}

func TestQuantityLimits(t *testing.T) {
	for text, want := range map[string]uint64{
		"0": 0, "0B": 0, "160B": 160, "2KiB": 2048, "1MB": 1e6, "1.5KiB": 1536, "0.000001GB": 1000, "17179869183GiB": 17179869183 << 30,
	} {
		if got, problem := quantity(text, sizeUnits); got != want || problem != "" {
			t.Errorf("%s: %d, %q, want %d", text, got, problem, want)
		}
	}
	if _, problem := quantity("17179869184GiB", sizeUnits); problem != "is too large" {
		t.Errorf("2^64 bytes: %q", problem)
	}
}

// Edit distance against its definition.
func TestEditDistance(t *testing.T) {
	var defined func(a, b string) int
	defined = func(a, b string) int {
		if a == "" || b == "" {
			return len(a) + len(b)
		}
		if a[0] == b[0] {
			return defined(a[1:], b[1:])
		}
		return 1 + min(defined(a[1:], b), defined(a, b[1:]), defined(a[1:], b[1:]))
	}
	word := rapid.StringMatching(`[abc]{0,6}`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := word.Draw(t, "a"), word.Draw(t, "b")
		if got, want := editDistance(a, b), defined(a, b); got != want {
			t.Fatalf("%q to %q: %d, want %d", a, b, got, want)
		}
	})
}

// What is written for a Config is read as that Config.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawConfig(t)
		text := write(&want)
		got, err := Parse("test.yaml", []byte(text))
		if err != nil {
			t.Fatalf("%v\nin:\n%s", err, text)
		}
		if v := values(got); !reflect.DeepEqual(v, want) {
			t.Fatalf("got  %+v\nwant %+v\nin:\n%s", v, want, text)
		}
	})
}

func drawConfig(t *rapid.T) Config {
	number := func(low, high int, label string) int { return rapid.IntRange(low, high).Draw(t, label) }
	c := Config{
		Workers: rapid.SliceOfNDistinct(rapid.IntRange(0, 100), 1, 4, rapid.ID).Draw(t, "workers"),
		Memory:  Memory{Buffers: 1 << 24, BufferSize: 1 << number(11, 16, "buffer_size")},
		PFC:     PFC{Enabled: rapid.Bool().Draw(t, "enabled"), Quanta: uint16(number(2, 65535, "quanta"))},
		Forwarding: Forwarding{
			Mode: Bridge, Wires: []Wire{}, Ageing: time.Duration(number(1e6, 1e15, "ageing")), Table: number(1, 1<<20, "table"),
		},
	}
	c.Memory.Cell = number(64, c.Memory.BufferSize, "cell")
	c.PFC.Refresh = uint16(number(1, int(c.PFC.Quanta)-1, "refresh"))
	cos := rapid.Permutation([]int{0, 1, 2, 3, 4, 5, 6, 7}).Draw(t, "cos")
	for n := 0; n < 8; {
		some := min(8-n, number(1, 8, "many"))
		c.Classes = append(c.Classes, drawClass(t, cos[n:n+some]))
		n += some
	}
	for i := range number(1, 5, "ports") {
		first := number(1, 4094, "first")
		last := number(first, 4094, "last")
		c.Ports = append(c.Ports, Port{
			Device: fmt.Sprint("sw", i), Speed: rapid.Uint64Range(1e3, 400e6).Draw(t, "speed") * 1e3,
			MTU:   number(68, c.Memory.BufferSize-BufferReserve-FrameOverhead, "mtu"),
			VLANs: []VLANRange{{uint16(first), uint16(last)}}, PVID: uint16(number(first, last, "pvid")),
			InFlight: number(2000, 1e9, "in_flight"), Mode: rapid.SampledFrom([]XDPMode{Auto, Copy, ZeroCopy}).Draw(t, "mode"),
			Worker: number(0, len(c.Workers)-1, "worker"), DefaultCoS: uint8(number(0, 7, "default_cos")), Peer: -1,
		})
	}
	return c
}

func drawClass(t *rapid.T, cos []int) Class {
	number := func(low, high int, label string) int { return rapid.IntRange(low, high).Draw(t, label) }
	c := Class{
		Name: fmt.Sprint("class", cos[0]), CoS: cos,
		Lossless: rapid.Bool().Draw(t, "lossless"), Strict: rapid.Bool().Draw(t, "strict"),
		Reserved: number(1, 1e6, "reserved"), Share: number(0, 1e11, "share"),
	}
	if !c.Strict {
		c.Weight = number(1, 1000, "weight")
	}
	if c.Lossless {
		c.Headroom, c.XON = number(64, 1e6, "headroom"), number(0, c.Share, "xon")
	} else {
		c.QueueLimit = number(2000, 1e11, "queue_limit")
	}
	return c
}

// write returns a file for a Config in bridge mode.
func write(c *Config) string {
	var b strings.Builder
	list := func(numbers []int) string { return strings.ReplaceAll(fmt.Sprint(numbers), " ", ", ") }
	fmt.Fprintf(&b, "workers: %s\nmemory: {buffers: %d, buffer_size: %dB, cell: %dB}\n", list(c.Workers), c.Memory.Buffers, c.Memory.BufferSize, c.Memory.Cell)
	fmt.Fprintf(&b, "pfc: {enabled: %v, quanta: %d, refresh: %d}\n", c.PFC.Enabled, c.PFC.Quanta, c.PFC.Refresh)
	fmt.Fprintf(&b, "forwarding: {mode: %s, wires: [], ageing: %dns, table: %d}\n", c.Forwarding.Mode, c.Forwarding.Ageing, c.Forwarding.Table)
	b.WriteString("classes:\n")
	for _, class := range c.Classes {
		fmt.Fprintf(&b, "- {cos: %s, name: %s, lossless: %v, strict: %v, reserved: %dB, share: %dB", list(class.CoS), class.Name, class.Lossless, class.Strict, class.Reserved, class.Share)
		if !class.Strict {
			fmt.Fprintf(&b, ", weight: %d", class.Weight)
		}
		if class.Lossless {
			fmt.Fprintf(&b, ", headroom: %dB, xon: %dB}\n", class.Headroom, class.XON)
		} else {
			fmt.Fprintf(&b, ", queue_limit: %dB}\n", class.QueueLimit)
		}
	}
	b.WriteString("ports:\n")
	for _, p := range c.Ports {
		fmt.Fprintf(&b, "- {device: %s, speed: %dK, mtu: %d, vlans: [%d-%d], pvid: %d, in_flight: %dB, mode: %s, worker: %d, default_cos: %d}\n",
			p.Device, p.Speed/1000, p.MTU, p.VLANs[0].First, p.VLANs[0].Last, p.PVID, p.InFlight, p.Mode, p.Worker, p.DefaultCoS)
	}
	return b.String()
}

// FuzzParse: whatever the file, either a Config that keeps all promises, or errors that can be acted on.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/bad/*.yaml", "../../examples/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatal(pattern, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Add([]byte(everything))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse("f", data)
		if err != nil {
			checkErrors(t, err.(Errors), data)
			return
		}
		checkConfig(t, c)
	})
}

func checkErrors(t *testing.T, errs Errors, data []byte) {
	lines := strings.Count(string(data), "\n") + strings.Count(string(data), "\r") + 1
	for i, e := range errs {
		if e.Line < 1 || e.Column < 1 || e.File != "f" || e.Problem == "" || e.Remedy == "" {
			t.Fatalf("%+v", e)
		}
		if e.Line > lines+1 && lines > 1 {
			t.Fatalf("%v in a file of %d lines", e, lines)
		}
		if strings.ContainsAny(e.Error(), "\n\r") {
			t.Fatalf("%q is more than one line", e)
		}
		if i > 0 && (e.Line < errs[i-1].Line || e.Line == errs[i-1].Line && e.Column < errs[i-1].Column) {
			t.Fatalf("%v after %v", e, errs[i-1])
		}
	}
	if len(errs) == 0 {
		t.Fatal("errors without an error")
	}
}

func checkConfig(t *testing.T, c *Config) {
	is := func(ok bool, what string) {
		if !ok {
			t.Fatalf("%s is not kept by %+v", what, values(c))
		}
	}
	m := c.Memory
	is(m.BufferSize&(m.BufferSize-1) == 0 && m.Cell <= m.BufferSize, "the geometry of buffers")
	is(c.PFC.Refresh > 0 && c.PFC.Refresh < c.PFC.Quanta, "refresh in time")
	var ofCoS [8]int
	for _, class := range c.Classes {
		for _, cos := range class.CoS {
			ofCoS[cos]++
		}
		is(class.Name != "" && class.Strict == (class.Weight == 0), "a weight or strict")
		is(class.Lossless == (class.Headroom > 0) && class.Lossless == (class.QueueLimit == 0), "headroom or a queue limit")
		is(class.XON <= class.Share && class.Reserved+class.Share > 0, "room")
	}
	is(ofCoS == [8]int{1, 1, 1, 1, 1, 1, 1, 1}, "one class per CoS")
	seen := map[string]bool{}
	for i, p := range c.Ports {
		is(!seen[p.Device] && p.Device != "", "one port per device")
		seen[p.Device] = true
		is(p.MTU+FrameOverhead+BufferReserve <= m.BufferSize, "frames that fit buffers")
		is(p.member(p.PVID) && p.PVID >= 1 && p.PVID <= 4094, "membership in the PVID")
		is(p.Worker >= 0 && p.Worker < max(1, len(c.Workers)), "a worker that exists")
		is(p.Speed > 0 && p.InFlight > 0 && p.Speed < math.MaxInt64, "speed")
		if c.Forwarding.Mode == Bridge {
			is(p.Peer == -1, "no peers in bridge mode")
		} else {
			is(p.Peer >= 0 && p.Peer != i && c.Ports[p.Peer].Peer == i, "peers of each other")
		}
		c.Problem(&c.Ports[i].Device, "p", "r") // panics without a position
	}
	is(len(c.Ports) > 0, "at least one port")
}
