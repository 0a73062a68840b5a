package control

import (
	"fmt"
	"strings"
	"testing"

	"sluice/bench/testkit/configtest"
	"sluice/internal/config"
)

// runs is a running configuration with every key that can't change while it runs.
const runs = `workers: [2]
memory: {buffers: 65536, buffer_size: 4096B, cell: 128B}
transmitter: {cpu: 3, ring: 512}
control: {socket: /run/a.sock, group: adm, viewers: users}
metrics: {listen: ":9000", web_config: web.yaml}
forwarding: {mode: wire, wires: [[sw0, sw1]], table: 100}
ports:
  - {device: sw0, speed: 10G, worker: 0, mode: copy, tx: resident, busy_poll: true}
  - {device: sw1, speed: 10G}
`

// TestFollowRefuses: every key that can't change is refused at its position, with its name and the
// running value.
func TestFollowRefuses(t *testing.T) {
	for _, test := range []struct{ old, new, want string }{
		{"buffers: 65536", "buffers: 32768", "new.yaml:2:19: memory.buffers can't change while the switch runs: it " +
			"is 65536 now: keep that, or restart the switch"},
		{"buffer_size: 4096B", "buffer_size: 2048B",
			"memory.buffer_size can't change while the switch runs: it is 4096B now"},
		{"cell: 128B", "cell: 64B", "memory.cell can't change while the switch runs: it is 128B now"},
		{"workers: [2]", "workers: [1]", "new.yaml:1:10: workers can't change while the switch runs: it is [2] now"},
		{"cpu: 3", "cpu: 4", "new.yaml:3:20: transmitter.cpu can't change while the switch runs: it is 3 now"},
		{"cpu: 3", "cpu: worker", "new.yaml:3:20: transmitter.cpu can't change while the switch runs: it is 3 now"},
		{"ring: 512", "ring: 1024", "transmitter.ring can't change while the switch runs: it is 512 now"},
		{"/run/a.sock", "/run/b.sock", "control.socket can't change while the switch runs: it is /run/a.sock now"},
		{", group: adm", "", "control.group can't change while the switch runs: it is adm now"},
		{", viewers: users", "", "control.viewers can't change while the switch runs: it is users now"},
		{`":9000"`, `":9001"`, "metrics.listen can't change while the switch runs: it is :9000 now"},
		{", web_config: web.yaml", "", "metrics.web_config can't change while the switch runs: it is "},
		{"mode: wire, wires: [[sw0, sw1]], ", "", "forwarding.mode can't change while the switch runs: it is wire now"},
		{"table: 100", "table: 101", "forwarding.table can't change while the switch runs: it is 100 now"},
		{"mode: copy", "mode: auto", "the mode of sw0 can't change while the switch runs: it is copy now"},
		{"tx: resident", "tx: auto", "new.yaml:8:58: tx of sw0 can't change while the switch runs: it is resident now"},
		{", tx: resident", "", "tx of sw0 can't change while the switch runs: it is resident now"},
		{"busy_poll: true", "busy_poll: false", "busy_poll of sw0 can't change while the switch runs: it is true now"},
	} {
		if !strings.Contains(runs, test.old) {
			t.Fatalf("no %q to change", test.old)
		}
		c, err := config.Parse("new.yaml", []byte(strings.Replace(runs, test.old, test.new, 1)))
		if err != nil {
			t.Fatal(err)
		}
		if err := Follow(c, configtest.Parse(t, runs)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", test.new, err, test.want)
		}
	}
}

// TestFollowAcrossBuffers: without memory.cell in the file, an mtu that makes frames occupy several
// buffers, or no longer, changes the size of cells and so is refused. With it, any mtu may follow
// any other.
func TestFollowAcrossBuffers(t *testing.T) {
	text := func(cell string, mtu int) string {
		return fmt.Sprintf("memory: {buffer_size: 4096B%s}\nports: [{device: sw0, speed: 1G}, {device: sw1, speed: "+
			"1G, mtu: %d}]\n", cell, mtu)
	}
	for _, test := range []struct {
		before, after string
		want          string // empty: accepted
	}{
		{text("", 3694), text("", 1500), ""},
		{text("", 9500), text("", 3695), ""},
		{text(", cell: 3328B", 1500), text(", cell: 3328B", 9500), ""},
		{text(", cell: 3328B", 9500), text(", cell: 3328B", 1500), ""},
		{text(", cell: 3328B", 1500), text("", 9500), ""},
		{text("", 1500), text("", 9000), "new.yaml:2:65: the mtu of sw1 can't become 9000 while the switch runs: its " +
			"frames would occupy several buffers, and memory.cell would change from 4096B to 3328B: restart the " +
			"switch, or lower mtu to 3694; once memory.cell is set to 3328B, mtu can change without a restart"},
		{text("", 9000), text("", 1500), "new.yaml:1:9: memory.cell can't change from 3328B to 4096B while the " +
			"switch runs: set it to 3328B, or restart the switch"},
		{text("", 1500), text(", cell: 3328B", 9000), "new.yaml:1:36: memory.cell can't change while the switch " +
			"runs: it is 4096B now: keep that, or restart the switch"},
	} {
		c, err := config.Parse("new.yaml", []byte(test.after))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := Follow(c, configtest.Parse(t, test.before)); err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("before:\n%safter:\n%s got  %s\nwant %s", test.before, test.after, got, test.want)
		}
	}
}

// TestFollowKeepsWorkers: a port that names no worker stays with its own, and other keys may
// change.
func TestFollowKeepsWorkers(t *testing.T) {
	old := configtest.Parse(t,
		"workers: [1, 2]\nports: [{device: sw0, speed: 1G, worker: 1}, {device: sw1, speed: 1G}]\n")
	c := configtest.Parse(t, "workers: [1, 2]\npfc: {quanta: 1000}\nports: [{device: sw0, speed: 2G}, {device: sw2, "+
		"speed: 1G, tx: xsk}]\n")
	if err := Follow(c, old); err != nil {
		t.Error(err)
	}
	if w := c.Ports[0].Worker; w != 1 {
		t.Errorf("sw0 goes to worker %d", w)
	}
}
