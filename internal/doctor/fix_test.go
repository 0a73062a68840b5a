package doctor

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"sluice/internal/config"
	"sluice/internal/control/params"
	"sluice/internal/linux/netdev"
	"sluice/internal/state"
)

// checked does the checks of `sluice check`.
func checked(text string) (*config.Config, error) {
	c, err := config.Parse("switch.yaml", []byte(text))
	if err == nil {
		err = translates(c)
	}
	return c, err
}

func translates(c *config.Config) error {
	_, err := params.Of(c, nil)
	return err
}

// mapping draws a few keys of a mapping in addition to those in always, as flow text or as block
// text indented by depth.
func mapping(t *rapid.T, depth int, always []string, keys ...*rapid.Generator[string]) string {
	lines := slices.Clone(always)
	for i, key := range keys {
		if rapid.IntRange(0, 3).Draw(t, fmt.Sprint("key ", i)) == 3 {
			lines = append(lines, key.Draw(t, "line"))
		}
	}
	if len(lines) == 0 || rapid.Bool().Draw(t, "flow") {
		return "{" + strings.Join(lines, ", ") + "}\n"
	}
	return strings.Join(lines, "\n"+strings.Repeat(" ", depth)) + "\n"
}

func oneOf(name string, values ...string) *rapid.Generator[string] {
	return rapid.Map(rapid.SampledFrom(values), func(v string) string { return name + ": " + v })
}

// drawFile draws a configuration of one or two workers and two ports that may ask for more than a
// machine has.
func drawFile(t *rapid.T) string {
	var b strings.Builder
	section := func(name, text string) {
		if !strings.HasPrefix(text, "{") {
			text = "\n  " + text
		}
		fmt.Fprintf(&b, "%s: %s", name, text)
	}
	b.WriteString(rapid.SampledFrom([]string{"", "workers: [3]\n", "workers: [2, 3]\n", "%YAML 1.2\n---\n"}).Draw(t,
		"workers"))
	if rapid.Bool().Draw(t, "memory") {
		section("memory", mapping(t, 2, nil, oneOf("buffers", "2048", "32768", "65536", "1000000", "16777216"),
			oneOf("buffer_size", "2048B", "4096B", `"8192B"`, "65536B"), oneOf("cell", "160B", "2048B", "4096B")))
	}
	if rapid.Bool().Draw(t, "pfc") {
		section("pfc", mapping(t, 2, nil, oneOf("quanta", "1000", "20000", "65535"), oneOf("refresh", "300", "16000")))
	}
	senders := []string{"xsk", "auto"}
	if rapid.Bool().Draw(t, "transmitter") {
		section("transmitter",
			mapping(t, 2, []string{"cpu: " + rapid.SampledFrom([]string{"2", "3", "worker"}).Draw(t, "cpu")}))
		senders = append(senders, "resident")
	}
	if rapid.Bool().Draw(t, "control") {
		section("control", mapping(t, 2, []string{"socket: /etc/socket"}))
	}
	if class := []string{"cos: [3]", "lossless: true"}; rapid.IntRange(0, 3).Draw(t, "classes") > 0 {
		section("classes", "- "+mapping(t, 4, class, oneOf("reserved", "0B", "100KB"),
			oneOf("headroom", "40MB", "400MB")))
	}
	b.WriteString("ports:\n")
	for i := range 2 {
		b.WriteString("  - " + mapping(t, 4, []string{fmt.Sprintf("device: port%d", i+1), "speed: 10G"},
			oneOf("link_speed", "10G", "100G"), oneOf("response", "10us", "500us", "2ms"),
			oneOf("in_flight", "2KB", "1MB"),
			oneOf("mode", "copy", "zero-copy", "auto"), oneOf("tx", senders...), oneOf("mtu", "1500", "3000"),
			oneOf("flow_control", "off", "pause"), oneOf("s_tag", "pcp")))
	}
	return b.String()
}

// drawMachine draws a machine with deficiencies.
func drawMachine(t *rapid.T) Machine {
	m, files, devices := wellMachine()
	files["/proc/meminfo"] = fmt.Sprintf("MemTotal: 16000000 kB\nMemAvailable: %d kB",
		rapid.SampledFrom([]int{1000, 64000, 200000, 8000000}).Draw(t, "kB"))
	pages := rapid.SampledFrom([]string{"0", "100", "10000"}).Draw(t, "hugepages")
	files[hugepageDirectory+"nr_hugepages"], files[hugepageDirectory+"free_hugepages"] = pages, pages
	if rapid.Bool().Draw(t, "no hugepages") {
		delete(files, hugepageDirectory+"nr_hugepages")
	}
	if rapid.Bool().Draw(t, "no buffers") {
		m.Buffer = func(int) error { return unix.EINVAL }
	}
	if rapid.Bool().Draw(t, "read-only") {
		m.Write = func(directory string) error { return unix.EACCES }
	}
	gap := time.Duration(rapid.OneOf(rapid.IntRange(10_000, 1_000_000), rapid.IntRange(10_000, 20_000_000)).Draw(t,
		"gap"))
	m.Gap = func(int) (time.Duration, error) { return gap, nil }
	for _, name := range []string{"port1", "port2"} {
		d := devices[name]
		d.Kind = rapid.SampledFrom([]string{"veth", "device"}).Draw(t, "kind")
		d.Speed = rapid.SampledFrom([]uint64{0, 1e9, 25e8, 10e9, 100e9}).Draw(t, "rate")
		d.MTU = rapid.SampledFrom([]int{1500, 3000, 9000}).Draw(t, "mtu")
		d.XDP = rapid.SampledFrom([]netdev.Features{0, netdev.Basic | netdev.Redirect,
			netdev.Basic | netdev.Redirect | netdev.Target,
			netdev.Basic | netdev.Redirect | netdev.ZeroCopy}).Draw(t, "xdp")
	}
	return m
}

// applied puts the fix of a finding into a file as its reader would: it replaces the line at the
// fix's place, or is added if another line or a mapping is there.
func applied(t *rapid.T, text string, f Finding) string {
	var line, column int
	if _, err := fmt.Sscanf(f.At, "switch.yaml:%d:%d", &line, &column); err != nil {
		t.Fatalf("%s: %v", f.At, err)
	}
	lines := strings.Split(text, "\n")
	before, behind := lines[line-1][:column-1], lines[line-1][column-1:]
	key, value, _ := strings.Cut(f.Fix, ": ")
	switch {
	case strings.HasSuffix(before, key+": "):
		end := strings.IndexAny(behind+"\n", ",}\n")
		behind = value + behind[end:]
	case strings.HasPrefix(behind, "{"):
		behind = "{" + f.Fix + ", " + behind[1:]
	default:
		behind = f.Fix + "\n" + strings.Repeat(" ", column-1) + behind
	}
	lines[line-1] = before + behind
	return strings.Join(lines, "\n")
}

// TestMendsPassCheck: whatever the configuration and the machine, check accepts the file with any
// one of the lines that the doctor suggests.
func TestMendsPassCheck(t *testing.T) {
	mends := map[string]int{} // by key
	rapid.Check(t, func(t *rapid.T) {
		text := drawFile(t)
		c, err := checked(text)
		if err != nil {
			t.Skip(err)
		}
		m := drawMachine(t)
		p := Target{Config: c, Check: translates, Ring: params.RingSize(c)}
		if rapid.Bool().Draw(t, "running") {
			p.Running = &Running{Socket: "/run/s.sock", Switch: &state.Switch{}}
			for cpu := range max(1, len(c.Workers)) {
				gap, _ := m.Gap(cpu)
				p.Running.Workers = append(p.Running.Workers, state.Worker{CPU: 3 - cpu, GapWaitNS: int64(gap)})
			}
			for i := range c.Ports {
				p.Running.Ports = append(p.Running.Ports, state.Port{Name: c.Ports[i].Device, Worker: c.Ports[i].Worker,
					Mode: "copy (native)"})
			}
		}
		for _, f := range Examine(m, p).Findings {
			if f.At == "" || f.Fix == "" || f.Subject == "links" { // there, the fix is a sentence
				continue
			}
			key, _, _ := strings.Cut(f.Fix, ":")
			mends[key]++
			if _, err := checked(applied(t, text, f)); err != nil {
				t.Fatalf("%s at %s: %v\nin\n%swhere %s", f.Fix, f.At, err, text, f.Text)
			}
		}
	})
	if len(mends) < 4 {
		t.Errorf("hardly any remedies: %v", mends)
	}
}

// TestRoomForAResponse: if a suggested response needs more buffers, they are suggested too,
// provided that the machine has the memory.
func TestRoomForAResponse(t *testing.T) {
	for kilobytes, want := range map[int]string{8000000: "memory: {buffers: 65536}", 100000: ""} {
		m, files, _ := wellMachine()
		files["/proc/meminfo"] = fmt.Sprintf("MemTotal: 16000000 kB\nMemAvailable: %d kB", kilobytes)
		m.Gap = func(int) (time.Duration, error) { return 1300 * time.Microsecond, nil }
		text := strings.Replace(twoPorts, "10G", "10G, response: 10us", 2)
		r := Examine(m, Target{Config: parsed(t, text), Check: translates})
		at := slices.IndexFunc(r.Findings, func(f Finding) bool { return f.Status == Error && f.Subject == "port1" })
		if at < 0 || r.Findings[at].Fix != want || !strings.Contains(r.Findings[at].Text, "`response: ") {
			t.Errorf("with %d kB:\n%s", kilobytes, show(r))
		}
	}
}

// TestRefusedLines: a rejected line is shown with the reason, and not as a fix.
func TestRefusedLines(t *testing.T) {
	m, _, _ := wellMachine()
	m.Gap = func(int) (time.Duration, error) { return 1300 * time.Microsecond, nil }
	r := Examine(m,
		Target{Config: parsed(t, twoPorts), Check: func(*config.Config) error { return errors.New("not so") }})
	text := show(r)
	if !strings.Contains(text, "`response: 2.367ms` alone would be refused: not so []") {
		t.Error(text)
	}
}
