package adversary

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"sluice/internal/config"
	"sluice/internal/text/prose"
)

// settings are what the adversary draws of a configuration. A reload draws some of them anew.
type settings struct {
	workers                       int
	memory, pfc, watchdog, ageing string
	static, auto                  bool // the FDB has static entries; ports may agree by DCBX
	lossless, lossy               classSettings
	ports                         []portSettings
}

// classSettings are those of a class. Sizes are in bytes.
type classSettings struct {
	cos                       []int
	reserved, share, headroom int    // headroom 0: computed
	alpha                     string // instead of share, if not empty
	queue                     string // its limit
	xon                       string
}

// portSettings are those of a port.
type portSettings struct {
	rate, speed       int // Mbit/s: of the link, and of the shaper
	mtu, peerMTU      int
	metres            int
	response          int64 // ns
	inFlight, worker  int
	link, trust, flow string
	agreed            int // priorities, if flow is auto
}

// drawSettings draws a configuration, which the switch need not accept.
func drawSettings(rng *rand.Rand, jumbo bool) *settings {
	s := &settings{workers: 1, static: rng.IntN(3) > 0, auto: rng.IntN(4) == 0, watchdog: "action: off"}
	ports := 2 + rng.IntN(6)
	if rng.IntN(4) == 0 {
		ports = 2 + rng.IntN(23)
	}
	if rng.IntN(2) == 0 {
		s.workers = 1 + rng.IntN(min(ports, 4))
	}
	if buffers := 4096 << rng.IntN(4); jumbo {
		size := pick(rng, 2048, 4096)
		s.memory = fmt.Sprintf("buffers: %d, buffer_size: %dB, cell: %dB", buffers, size,
			pick(rng, 80, 160, 160, 512, map[int]int{2048: 1664, 4096: 3328}[size]))
	} else {
		s.memory = fmt.Sprintf("buffers: %d, cell: %dB", buffers, pick(rng, 80, 160, 160, 240, 512, 2048))
	}
	s.pfc = fmt.Sprintf("quanta: %d, asymmetric: %t", pick(rng, 65535, 65535, 8192), rng.IntN(4) == 0)
	s.ageing = pick(rng, "300s", "300s", "2ms")
	s.drawClasses(rng)
	s.drawPorts(rng, jumbo, ports)
	return s
}

// drawClasses draws a class of lossless priorities and one of the other priorities.
func (s *settings) drawClasses(rng *rand.Rand) {
	k := 1
	if rng.IntN(2) == 0 {
		k = 1 + rng.IntN(8)
	}
	order := rng.Perm(8)
	s.lossless.cos, s.lossy.cos = order[:k], order[k:]
	for _, c := range []*classSettings{&s.lossless, &s.lossy} {
		c.reserved, c.share = rng.IntN(3)*rng.IntN(4000), int(between(rng, 4_000, 400_000))
		if rng.IntN(4) == 0 {
			c.alpha = pick(rng, "1/8", "1/2", "1", "4")
		}
	}
	if s.lossless.alpha == "" && rng.IntN(4) == 0 {
		s.lossless.xon = ", xon_offset: 2000B"
	}
	s.drawQueue(rng)
}

func (s *settings) drawQueue(rng *rand.Rand) {
	s.lossy.queue = fmt.Sprintf(", queue_limit: %dB", int(between(rng, 4_000, 400_000)))
	if rng.IntN(4) == 0 {
		s.lossy.queue = fmt.Sprintf(", queue_alpha: %s", pick(rng, "1/8", "1", "4"))
	}
}

func (s *settings) drawPorts(rng *rand.Rand, jumbo bool, n int) {
	rate := pick(rng, 1_000, 10_000, 10_000, 10_000, 25_000, 40_000, 100_000)
	mtu := pick(rng, 1500, 1500, 68+rng.IntN(1800))
	if jumbo {
		mtu = pick(rng, 4200, 9000, 9216, 9216, 9500, 3700+rng.IntN(5801))
	}
	response := int64(between(rng, 5_000, 500_000))
	inFlight := int(between(rng, 2_000, pick(rng, 4_000., 64_000.)))
	shorter := rng.IntN(2) // whether lossless frames may be limited to a shorter length than others
	tags, kinds, trusts := rng.IntN(3) == 0, rng.IntN(4) == 0, rng.IntN(6) == 0
	for i := range n {
		if rng.IntN(8) == 0 {
			rate = pick(rng, 1_000, 10_000, 25_000)
		}
		p := portSettings{rate: rate, speed: rate, mtu: mtu, peerMTU: max(68, mtu-shorter*rng.IntN(mtu)),
			metres: int(between(rng, 1, 2000)), response: response, inFlight: inFlight, worker: i % s.workers,
			link: "transparent", trust: "default", flow: "pfc"}
		if tags {
			p.link = pick(rng, "transparent", "access", "trunk", taggedTrunk)
		}
		if kinds {
			p.flow = pick(rng, "pfc", "pause", "off")
		}
		if s.auto && rng.IntN(4) > 0 {
			p.flow = "auto"
		}
		if trusts {
			p.trust = pick(rng, "default", "ip")
		}
		s.ports = append(s.ports, p)
	}
	s.agree(rng)
}

// agree draws what ports have agreed on by DCBX.
func (s *settings) agree(rng *rand.Rand) {
	for i := range s.ports {
		s.ports[i].agreed = 0
		for _, cos := range s.lossless.cos {
			s.ports[i].agreed |= min(1, rng.IntN(4)) << cos
		}
	}
}

// text returns the settings as a file.
func (s *settings) text() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("workers: [%s]", list(s.workers))
	line("memory: {%s}", s.memory)
	line("classes:")
	line("  - {lossless: true, %s}", s.lossless.text())
	if len(s.lossy.cos) > 0 {
		line("  - {%s}", s.lossy.text())
	}
	line("ets: [{name: default, groups: [{pg: 0, cos: [0, 1, 2, 3, 4, 5, 6, 7], weight: 100}]}]")
	line("pfc: {%s}\nwatchdog: {%s}\nlldp: {enabled: %t}", s.pfc, s.watchdog, s.auto)
	if slices.ContainsFunc(s.ports, func(p portSettings) bool { return p.trust == "ip" }) {
		line("qos: [{name: ip, trust: dscp, dscp_to_cos: {0: 0, 10: 1, 18: 2, 26: 3, 34: 4, 46: 5, 48: 6, 56: 7}, " +
			"cos_to_dscp: {0: 0, 1: 10, 2: 18, 3: 26, 4: 34, 5: 46, 6: 48, 7: 56}}]")
	}
	line("forwarding:\n  ageing: %s", s.ageing)
	if s.static {
		line("  static:")
		for i := range s.ports {
			line("    - {mac: %q, port: p%d}", hostOf(i), i)
		}
	}
	line("ports:")
	for i := range s.ports {
		p := &s.ports[i]
		line("  - {device: p%d, speed: %dM, link_speed: %dM, mtu: %d, peer_mtu: %d, cable: %dm, response: %dns, "+
			"in_flight: %dB, worker: %d, link: %s, qos: %s, flow_control: %s}", i, p.speed, p.rate, p.mtu,
			p.peerMTU, p.metres, p.response, p.inFlight, p.worker, p.link, p.trust, p.flow)
	}
	return b.String()
}

func (c *classSettings) text() string {
	text := fmt.Sprintf("cos: [%s], reserved: %dB", prose.Join(c.cos, ", "), c.reserved)
	if c.alpha != "" {
		text += ", alpha: " + c.alpha
	} else {
		text += fmt.Sprintf(", share: %dB", c.share)
	}
	if c.headroom > 0 {
		text += fmt.Sprintf(", headroom: %dB", c.headroom)
	}
	return text + c.queue + c.xon
}

// parse returns the configuration that the settings describe.
func (s *settings) parse() (*config.Config, error) {
	c, err := config.Parse("adversary.yaml", []byte(s.text()))
	if err != nil {
		return nil, err
	}
	facts := map[string]config.LinkFacts{}
	for i := range s.ports {
		if p := &s.ports[i]; p.flow == "auto" {
			facts[fmt.Sprintf("p%d", i)] = config.LinkFacts{DCB: &config.Agreed{PFC: uint8(p.agreed)}}
		}
	}
	if len(facts) == 0 {
		return c, nil
	}
	return c.OnLinks(facts)
}

// taggedTrunk is a port that all frames leave with a tag, as no VLAN is its own.
const taggedTrunk = "trunk, pvid: 2, vlans: [1]"

// dscp are the code points of the classes where frames are classified by them.
var dscp = [8]uint8{0, 10, 18, 26, 34, 46, 48, 56}

func list(n int) string {
	var numbers []int
	for i := range n {
		numbers = append(numbers, i)
	}
	return prose.Join(numbers, ", ")
}
