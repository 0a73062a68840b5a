package main

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"

	"sluice/bench/program"
)

// vlanConfiguration has two access ports and two trunks. What leaves by port3 with class 5 has PCP
// 6.
const vlanConfiguration = `
classes:
  - {cos: [0, 1, 2, 3, 4, 5, 6, 7]}
qos: [{name: marking, cos_to_pcp: {5: 6}}]
ports:
  - {device: port1, speed: 100M, link: access, pvid: 10, default_cos: 5}
  - {device: port2, speed: 100M, link: trunk, pvid: 20, vlans: [10, 20, 30]}
  - {device: port3, speed: 100M, link: trunk, vlans: [1, 10, 30], qos: marking}
  - {device: port4, speed: 100M, link: access, pvid: 20}
`

const vlanPorts = 4

// vlanTag is "VID/PCP", or "-" for a frame without one.
type vlanTag string

const untagged vlanTag = "-"

// bytes returns the tag of a frame (802.1Q clause 9.6), or nothing.
func (v vlanTag) bytes(t *testing.T) []byte {
	if v == untagged {
		return nil
	}
	var vid uint16
	var pcp byte
	if _, err := fmt.Sscanf(string(v), "%d/%d", &vid, &pcp); err != nil {
		t.Fatal(err)
	}
	return []byte{0x81, 0, pcp<<5 | byte(vid>>8), byte(vid)}
}

// vlanCase is a frame and how it arrives.
type vlanCase struct {
	from int // port
	tag  vlanTag
	to   int             // port, whose host has sent already; 0: everyone
	want map[int]vlanTag // by port
}

// vlanBroadcasts and then vlanUnicasts are sent.
var (
	vlanBroadcasts = []vlanCase{
		{from: 1, tag: untagged, want: map[int]vlanTag{2: "10/5", 3: "10/6"}},
		{from: 1, tag: "0/2", want: map[int]vlanTag{2: "10/2", 3: "10/2"}}, // a priority without a VLAN
		{from: 1, tag: "10/3"}, // no access for tags, be it the right one
		{from: 1, tag: "30/3"}, // not of that port
		{from: 2, tag: untagged, want: map[int]vlanTag{4: untagged}},
		{from: 2, tag: "20/5", want: map[int]vlanTag{4: untagged}},
		{from: 2, tag: "10/4", want: map[int]vlanTag{1: untagged, 3: "10/4"}},
		{from: 2, tag: "30/5", want: map[int]vlanTag{3: "30/6"}},
		{from: 2, tag: "1/0"}, // not of that port
		{from: 3, tag: "30/7", want: map[int]vlanTag{2: "30/7"}},
		{from: 3, tag: "10/5", want: map[int]vlanTag{1: untagged, 2: "10/5"}},
		{from: 3, tag: untagged}, // alone in its VLAN
		{from: 4, tag: untagged, want: map[int]vlanTag{2: untagged}},
		{from: 4, tag: "0/7", want: map[int]vlanTag{2: untagged}},
	}
	vlanUnicasts = []vlanCase{
		{from: 1, tag: untagged, to: 2, want: map[int]vlanTag{2: "10/5"}},
		{from: 2, tag: "10/1", to: 1, want: map[int]vlanTag{1: untagged}},
		{from: 3, tag: "10/1", to: 1, want: map[int]vlanTag{1: untagged}},
		{from: 4, tag: untagged, to: 2, want: map[int]vlanTag{2: untagged}},
		{from: 2, tag: "30/5", to: 3, want: map[int]vlanTag{3: "30/6"}},
	}
)

func vlanMAC(port int) net.HardwareAddr { return net.HardwareAddr{2, 0, 0, 0, 1, byte(port)} }

// TestAccessAndTrunk sends frames with and without tags through both kinds of port, to everyone and
// to one, and has tshark look at the tags with which they arrive, if they do.
func TestAccessAndTrunk(t *testing.T) {
	_, p, hosts := newPlainHosts(t, vlanPorts, vlanConfiguration)
	random := rand.New(rand.NewPCG(9, 10))
	var want [vlanPorts][]string // what arrives: tag and contents
	number := byte(0)
	send := func(cases []vlanCase) {
		for _, c := range cases {
			to := net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
			if c.to > 0 {
				to = vlanMAC(c.to)
			}
			contents := []byte{number}
			for number++; len(contents) < 60; { // so that no end of a frame is padding
				contents = append(contents, byte(random.Uint32()))
			}
			hosts[c.from-1].send(slices.Concat(to, vlanMAC(c.from), c.tag.bytes(t), []byte{0x88, 0xb5}, contents))
			for port, tag := range c.want {
				want[port-1] = append(want[port-1], fmt.Sprintf("%x %s", contents, tag))
			}
		}
		for i, h := range hosts {
			h.awaitReceived(uint64(len(want[i])))
		}
	}
	send(vlanBroadcasts)
	send(vlanUnicasts)
	for _, h := range hosts {
		h.awaitQuiet()
	}
	r := p.Stop()
	endCaptures(hosts...)

	for i, h := range hosts {
		got := h.tags(fmt.Sprintf("eth.src != %v && !macc", vlanMAC(i+1)))
		slices.Sort(want[i])
		if slices.Sort(got); !slices.Equal(got, want[i]) {
			t.Errorf("host %d received\n%s\nwant\n%s", i+1, strings.Join(got, "\n"), strings.Join(want[i], "\n"))
		}
	}
	for port, drop := range map[string]program.DropReport{
		"port1": {Reason: "vlan_ingress", CoS: 3, Frames: 2}, "port2": {Reason: "vlan_ingress", CoS: 0, Frames: 1},
		"port3": {Reason: "no_destination", CoS: 0, Frames: 1},
	} {
		if got := r.Port(t, port).Drops; !slices.Equal(got, []program.DropReport{drop}) {
			t.Errorf("%s dropped %+v, want %+v", port, got, drop)
		}
	}
}

// tags returns the contents of captured frames and the tag that tshark sees before them.
func (h *plainHost) tags(filter string) (frames []string) {
	h.t.Helper()
	for _, row := range h.decode(filter, "data.data", "vlan.id", "vlan.priority") {
		tag := string(untagged)
		if row[1] != "" {
			tag = row[1] + "/" + row[2]
		}
		contents, err := hex.DecodeString(strings.ReplaceAll(row[0], ":", ""))
		if err != nil {
			h.t.Fatalf("%q: %v", row, err)
		}
		frames = append(frames, fmt.Sprintf("%x %s", contents, tag))
	}
	return frames
}
