package control

import (
	"strings"
	"testing"

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
		if err := Follow(c, parse(t, runs)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", test.new, err, test.want)
		}
	}
}

// TestFollowKeepsWorkers: a port that names no worker stays with its own, and other keys may
// change.
func TestFollowKeepsWorkers(t *testing.T) {
	old := parse(t, "workers: [1, 2]\nports: [{device: sw0, speed: 1G, worker: 1}, {device: sw1, speed: 1G}]\n")
	c := parse(t, "workers: [1, 2]\npfc: {quanta: 1000}\nports: [{device: sw0, speed: 2G}, {device: sw2, speed: "+
		"1G, tx: xsk}]\n")
	if err := Follow(c, old); err != nil {
		t.Error(err)
	}
	if w := c.Ports[0].Worker; w != 1 {
		t.Errorf("sw0 goes to worker %d", w)
	}
}
