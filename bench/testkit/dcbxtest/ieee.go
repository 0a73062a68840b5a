package dcbxtest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
)

// Subtypes of the IEEE TLVs.
const (
	subtypeETS       = 0x09
	subtypeRecommend = 0x0a
	subtypePFC       = 0x0b
	subtypeApp       = 0x0c
)

// Table is an ETS table.
type Table struct {
	TC        [8]uint8 // by priority
	Bandwidth [8]uint8 // % by TC
	TSA       [8]uint8 // by TC: 0 strict, 1 CBS, 2 ETS, 255 vendor
}

// IEEEApp is an entry of the application table.
type IEEEApp struct {
	Priority, Selector uint8
	Protocol           uint16
}

// IEEEConfig is the configuration of an IEEEPeer.
type IEEEConfig struct {
	MAC, OtherMAC [6]byte
	HigherYields  bool // with both willing, the higher MAC address takes the other's PFC; else the lower

	// TLVs to send. SendETS includes the recommendation, unless NoRecommendation.
	SendETS, SendPFC, SendApps, NoRecommendation bool

	WillingETS, WillingPFC bool
	CBS                    bool
	MaxTCs                 uint8
	ETS                    Table // recommended, too
	MBC                    bool
	Capability             uint8
	PFC                    uint8
	Apps                   []IEEEApp
}

// IEEEPeer is one end of a link that speaks IEEE 802.1Qaz.
type IEEEPeer struct {
	config  IEEEConfig
	other   ieeeMessage
	said    [][]byte
	pending bool

	ETS        Table     // runs
	PFC        uint8     // runs
	OtherApps  []IEEEApp // what the other end sends
	violations []string
}

// ieeeMessage is the content of an LLDPDU; TLVs that it lacks are nil.
type ieeeMessage struct {
	recommendation *Table
	ets            *etsTLV
	pfc            *pfcTLV
	apps           []IEEEApp
}

type etsTLV struct {
	willing, cbs bool
	maxTCs       uint8
	table        Table
}

type pfcTLV struct {
	willing, mbc           bool
	capability, priorities uint8
}

// NewIEEEPeer returns an IEEEPeer that has received nothing.
func NewIEEEPeer(c IEEEConfig) *IEEEPeer {
	p := &IEEEPeer{}
	p.Configure(c)
	return p
}

// Configure changes the configuration.
func (p *IEEEPeer) Configure(c IEEEConfig) {
	p.config = c
	p.run()
}

// Expire forgets the other end: its information has aged out, or it has shut down.
func (p *IEEEPeer) Expire() {
	p.other = ieeeMessage{}
	p.run()
}

// Receive takes the values of all type-127 TLVs of an LLDPDU.
func (p *IEEEPeer) Receive(tlvs [][]byte) {
	p.other = ieeeMessage{}
	seen := map[byte]bool{}
	for _, tlv := range tlvs {
		if len(tlv) < 4 || string(tlv[:3]) != "\x00\x80\xc2" {
			continue
		}
		kind := tlv[3]
		if kind >= subtypeETS && kind <= subtypeApp && seen[kind] {
			p.violate("TLV %#x twice", kind)
		}
		seen[kind] = true
		if wrong := p.other.read(kind, tlv[4:]); wrong != "" {
			p.violate("TLV %#x: %s", kind, wrong)
		}
	}
	p.run()
}

func (m *ieeeMessage) read(kind byte, body []byte) (wrong string) {
	length, known := map[byte]int{subtypeETS: 21, subtypeRecommend: 21, subtypePFC: 2,
		subtypeApp: 1 + len(body)/3*3}[kind]
	if !known {
		return ""
	}
	if len(body) != length {
		return fmt.Sprintf("length %d", 4+len(body))
	}
	switch kind {
	case subtypeETS:
		m.ets = &etsTLV{willing: body[0]&0x80 != 0, cbs: body[0]&0x40 != 0, maxTCs: body[0] & 7}
		m.ets.table, wrong = readTable(body)
		if body[0]&0x38 != 0 {
			wrong = "reserved bits"
		}
	case subtypeRecommend:
		table, w := readTable(body)
		m.recommendation, wrong = &table, w
		if body[0] != 0 {
			wrong = "reserved byte"
		}
	case subtypePFC:
		m.pfc = &pfcTLV{willing: body[0]&0x80 != 0, mbc: body[0]&0x40 != 0, capability: body[0] & 0xf,
			priorities: body[1]}
		if body[0]&0x30 != 0 {
			wrong = "reserved bits"
		}
	case subtypeApp:
		if body[0] != 0 {
			wrong = "reserved byte"
		}
		for e := body[1:]; len(e) > 0; e = e[3:] {
			m.apps = append(m.apps, IEEEApp{e[0] >> 5, e[0] & 7, binary.BigEndian.Uint16(e[1:])})
			if e[0]&0x18 != 0 {
				wrong = "reserved bits"
			}
		}
	}
	return wrong
}

func readTable(body []byte) (t Table, wrong string) {
	for p := range 8 {
		t.TC[p] = body[1+p/2] >> 4
		if p%2 == 1 {
			t.TC[p] = body[1+p/2] & 0xf
		}
		if t.TC[p] > 7 {
			wrong = fmt.Sprintf("priority %d in class %d", p, t.TC[p])
		}
	}
	copy(t.Bandwidth[:], body[5:13])
	copy(t.TSA[:], body[13:21])
	sum, ets := 0, 0
	for i := range 8 {
		if t.TSA[i] == 2 {
			ets++
			sum += int(t.Bandwidth[i])
		}
	}
	if sum != 100 && ets != 0 {
		wrong = fmt.Sprintf("bandwidths sum to %d", sum)
	}
	return t, wrong
}

func (t *Table) build(first byte) []byte {
	body := []byte{first}
	for p := 0; p < 8; p += 2 {
		body = append(body, t.TC[p]<<4|t.TC[p+1])
	}
	return append(append(body, t.Bandwidth[:]...), t.TSA[:]...)
}

// run applies the rules: ETS is asymmetric, PFC symmetric.
func (p *IEEEPeer) run() {
	c := &p.config
	p.ETS = c.ETS
	if c.SendETS && c.WillingETS && p.other.recommendation != nil {
		p.ETS = *p.other.recommendation
	}
	p.PFC = c.PFC
	if c.SendPFC && p.other.pfc != nil && c.WillingPFC {
		if !p.other.pfc.willing {
			p.PFC = p.other.pfc.priorities
		} else if p.yields() {
			p.PFC = p.other.pfc.priorities
		}
	}
	if now := p.build(); !slices.EqualFunc(now, p.said, bytes.Equal) {
		p.said, p.pending = now, true
	}
	p.OtherApps = p.other.apps
}

// yields reports whether this end takes the other's PFC if both are willing.
func (p *IEEEPeer) yields() bool {
	if p.config.HigherYields {
		return bytes.Compare(p.config.MAC[:], p.config.OtherMAC[:]) > 0
	}
	return bytes.Compare(p.config.MAC[:], p.config.OtherMAC[:]) <= 0
}

func (p *IEEEPeer) violate(format string, args ...any) {
	p.violations = append(p.violations, fmt.Sprintf(format, args...))
}

func bit(set bool, value byte) byte {
	if set {
		return value
	}
	return 0
}

func (p *IEEEPeer) build() (tlvs [][]byte) {
	c := &p.config
	add := func(kind byte, body ...byte) {
		tlvs = append(tlvs, append([]byte{0x00, 0x80, 0xc2, kind}, body...))
	}
	if c.SendETS {
		add(subtypeETS, p.ETS.build(bit(c.WillingETS, 0x80)|bit(c.CBS, 0x40)|c.MaxTCs&7)...)
		if !c.NoRecommendation {
			add(subtypeRecommend, c.ETS.build(0)...)
		}
	}
	if c.SendPFC {
		add(subtypePFC, bit(c.WillingPFC, 0x80)|bit(c.MBC, 0x40)|c.Capability&0xf, p.PFC)
	}
	if c.SendApps {
		body := []byte{0}
		for _, a := range c.Apps {
			body = append(body, a.Priority<<5|a.Selector, byte(a.Protocol>>8), byte(a.Protocol))
		}
		add(subtypeApp, body...)
	}
	return tlvs
}

// TLVs returns the values of the TLVs to send now.
func (p *IEEEPeer) TLVs() [][]byte {
	p.pending = false
	return p.build()
}

// Pending reports whether an LLDPDU must be sent at once.
func (p *IEEEPeer) Pending() bool { return p.pending }

// OtherPFC returns the priorities that the other end shows; ok is false if it sends none.
func (p *IEEEPeer) OtherPFC() (priorities uint8, ok bool) {
	if p.other.pfc == nil {
		return 0, false
	}
	return p.other.pfc.priorities, true
}

// Violations returns the violations of formats by the other end.
func (p *IEEEPeer) Violations() []string { return p.violations }

// RandomIEEE returns a random configuration.
func RandomIEEE(r *rand.Rand, own, other [6]byte, higherYields bool) IEEEConfig {
	c := IEEEConfig{MAC: own, OtherMAC: other, HigherYields: higherYields,
		SendETS: r.IntN(10) != 0, SendPFC: r.IntN(10) != 0, SendApps: r.IntN(10) != 0,
		NoRecommendation: r.IntN(5) == 0, WillingETS: r.IntN(2) == 0, WillingPFC: r.IntN(2) == 0,
		CBS: r.IntN(2) == 0, MaxTCs: uint8(r.IntN(8)), MBC: r.IntN(2) == 0, Capability: 8,
		PFC: []uint8{0, 0x08, 0x18}[r.IntN(3)],
		ETS: Table{TC: [8]uint8{3: 1}, Bandwidth: [8]uint8{50, 50}, TSA: [8]uint8{2, 2}},
	}
	if r.IntN(2) == 0 {
		c.ETS.TC[7] = 2
		c.ETS.Bandwidth = [8]uint8{30, 70}
	}
	for _, a := range []IEEEApp{{3, 1, 0x8906}, {4, 2, 3260}, {3, 1, 0x8914}, {5, 3, 4791}, {1, 4, 80}, {6, 5, 46}} {
		if r.IntN(2) == 0 {
			c.Apps = append(c.Apps, a)
		}
	}
	return c
}
