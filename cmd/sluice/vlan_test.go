package main

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"

	"sluice/bench/netns"
	"sluice/bench/testkit/program"
	"sluice/internal/config"
)

// vlanConfiguration has two access ports and two trunks. Frames of class 5 leave port3 with PCP 6.
const vlanConfiguration = `
memory: {buffer_size: %[2]dB}
classes:
  - {cos: [0, 1, 2, 3, 4, 5, 6, 7]}
qos: [{name: marking, cos_to_pcp: {5: 6}}]
ports:
  - {device: port1, mtu: %[1]d, speed: 100M, link: access, pvid: 10, default_cos: 5}
  - {device: port2, mtu: %[1]d, speed: 100M, link: trunk, pvid: 20, vlans: [10, 20, 30]}
  - {device: port3, mtu: %[1]d, speed: 100M, link: trunk, vlans: [1, 10, 30], qos: marking}
  - {device: port4, mtu: %[1]d, speed: 100M, link: access, pvid: 20}
`

const vlanPorts = 4

// vlanTag is "VID/PCP", or "-" for an untagged frame.
type vlanTag string

const untagged vlanTag = "-"

// bytes returns the tag (802.1Q clause 9.6), or nothing if untagged.
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

// vlanCase is a frame to send, and how it must arrive.
type vlanCase struct {
	from int // port
	tag  vlanTag
	to   int             // port of a known host; 0: broadcast
	want map[int]vlanTag // by port
}

// TestAccessAndTrunk sends vlanBroadcasts first, then vlanUnicasts.
var (
	vlanBroadcasts = []vlanCase{
		{from: 1, tag: untagged, want: map[int]vlanTag{2: "10/5", 3: "10/6"}},
		{from: 1, tag: "0/2", want: map[int]vlanTag{2: "10/2", 3: "10/2"}}, // priority tag
		{from: 1, tag: "10/3"}, // an access port rejects tags, even of its own VLAN
		{from: 1, tag: "30/3"}, // VLAN not on this port
		{from: 2, tag: untagged, want: map[int]vlanTag{4: untagged}},
		{from: 2, tag: "20/5", want: map[int]vlanTag{4: untagged}},
		{from: 2, tag: "10/4", want: map[int]vlanTag{1: untagged, 3: "10/4"}},
		{from: 2, tag: "30/5", want: map[int]vlanTag{3: "30/6"}},
		{from: 2, tag: "1/0"}, // VLAN not on this port
		{from: 3, tag: "30/7", want: map[int]vlanTag{2: "30/7"}},
		{from: 3, tag: "10/5", want: map[int]vlanTag{1: untagged, 2: "10/5"}},
		{from: 3, tag: untagged}, // no other port in its VLAN
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

// TestAccessAndTrunk sends tagged and untagged frames through access ports and trunks, as broadcast
// and unicast, and checks with tshark where they arrive and with which tags.
func TestAccessAndTrunk(t *testing.T) {
	checkTags(t, 1500, 2048, 60) // long enough to need no padding
}

// TestJumboTags is TestAccessAndTrunk with frames of several parts. Some have to the byte what
// their buffers hold, before or after they lose or get a tag.
func TestJumboTags(t *testing.T) {
	for _, size := range []int{2048, 4096} {
		t.Run(fmt.Sprintf("buffer=%d", size), func(t *testing.T) {
			room, header := size-config.BufferReserve, 14
			checkTags(t, jumboMTU, size, 60, room-header-4, room-header-3, room-header, room-header+1,
				2*room-header-4, 2*room-header-3, 2*room-header, 2*room-header+1, jumboMTU)
		})
	}
}

// checkTags sends frames with contents of each of these lengths through ports with an MTU.
func checkTags(t *testing.T, mtu, bufferSize int, lengths ...int) {
	t.Helper()
	text := fmt.Sprintf(vlanConfiguration, mtu, bufferSize)
	_, p, hosts := newPlainHosts(t, vlanPorts, text, netns.MTU(mtu))
	random := rand.New(rand.NewPCG(9, 10))
	var want [vlanPorts][]string // expected frames: tag and contents
	number := uint16(0)
	send := func(cases []vlanCase) {
		for _, c := range cases {
			to := net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
			if c.to > 0 {
				to = vlanMAC(c.to)
			}
			for _, length := range lengths {
				contents := []byte{byte(number >> 8), byte(number)}
				for number++; len(contents) < length; {
					contents = append(contents, byte(random.Uint32()))
				}
				hosts[c.from-1].send(slices.Concat(to, vlanMAC(c.from), c.tag.bytes(t), []byte{0x88, 0xb5}, contents))
				for port, tag := range c.want {
					want[port-1] = append(want[port-1], fmt.Sprintf("%x %s", contents, tag))
				}
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
	checkBuffers(t, text, r)
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
		drop.Frames *= uint64(len(lengths))
		if got := r.Port(t, port).Drops; !slices.Equal(got, []program.DropReport{drop}) {
			t.Errorf("%s dropped %+v, want %+v", port, got, drop)
		}
	}
}

// tags returns the contents of captured frames with the tag that tshark decodes.
func (h *plainHost) tags(filter string) (frames []string) {
	h.t.Helper()
	for _, row := range h.Decode(filter, "data.data", "vlan.id", "vlan.priority") {
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
