package dcbx

import (
	"fmt"
	"strings"
)

// Recognizes reports whether the value of a TLV of type 127 (OUI, subtype, body) is DCBX, whatever
// its version.
func Recognizes(tlv []byte) bool {
	v, _ := identify(tlv)
	return v != Auto
}

// AlgorithmName names a transmission selection algorithm.
func AlgorithmName(tsa uint8) string {
	switch tsa {
	case TSAStrict:
		return "strict"
	case TSACBS:
		return "cbs"
	case TSAETS:
		return "ets"
	case TSAVendor:
		return "vendor"
	}
	return fmt.Sprintf("reserved %d", tsa)
}

// Describe returns the name of a TLV that Recognizes, and its content in words. The error says what
// is wrong with it; of several, the first.
func Describe(tlv []byte) (name, text string, err error) {
	v, subtype := identify(tlv)
	if v == Auto {
		return "not DCBX", "", nil
	}
	m := parse(v, [][]byte{tlv})
	name = "DCBX " + v.Title()
	if v == IEEE {
		name = map[uint8]string{subtypeETS: "ETS configuration", subtypeRecommend: "ETS recommendation",
			subtypePFC: "PFC configuration", subtypeApp: "application priority"}[subtype]
		text = m.describeIEEE(subtype)
	} else {
		text = m.describeLegacy()
	}
	for e, n := range m.counts {
		if n > 0 {
			return name, text, Error(e)
		}
	}
	return name, text, nil
}

// describeIEEE describes the only TLV of a message.
func (m *message) describeIEEE(subtype uint8) string {
	flags := func(f Feature) string {
		if m.features[f].willing {
			return "willing; "
		}
		return "not willing; "
	}
	switch {
	case subtype == subtypeRecommend && m.recommends:
		return m.recommend.words()
	case subtype == subtypeETS && m.features[FeatureETS].present:
		return fmt.Sprintf("%sup to %d traffic classes; %s", flags(FeatureETS), m.ets.MaxTCs, m.ets.words())
	case subtype == subtypePFC && m.features[FeaturePFC].present:
		mbc := ""
		if m.pfc.MBC {
			mbc = "MACsec bypass; "
		}
		return fmt.Sprintf("%s%sup to %d priorities; %s", flags(FeaturePFC), mbc, m.pfc.Capability,
			list(m.pfc.Priorities))
	case subtype == subtypeApp && m.features[FeatureApp].present:
		v := Values{Apps: m.apps}
		return v.words(FeatureApp)
	}
	return ""
}

// describeLegacy describes the sub-TLVs of CEE or CIN.
func (m *message) describeLegacy() string {
	var all []string
	if c := m.control; c != nil {
		all = append(all, fmt.Sprintf("control: version %d of %d, SeqNo %d, AckNo %d", c.oper, c.max, c.seq, c.ack))
	}
	for f := range Feature(Features) {
		h := &m.features[f]
		if !h.present {
			continue
		}
		one := f.String() + ":"
		for _, flag := range []struct {
			is   bool
			name string
		}{{h.enabled, "enabled"}, {h.willing, "willing"}, {h.failed, "error"}} {
			if flag.is {
				one += " " + flag.name
			}
		}
		v := Values{PFC: m.pfc, ETS: m.ets, Apps: m.apps}
		all = append(all, one+", "+v.words(f))
	}
	return strings.Join(all, "; ")
}

// Name returns the name of an application's protocol; "": it has none here.
func (a App) Name() string {
	switch {
	case a.Selector == SelectEthertype && a.Protocol == EthertypeFCoE:
		return "fcoe"
	case a.Selector == SelectEthertype && a.Protocol == EthertypeFIP:
		return "fip"
	case a.Selector == SelectEthertype && a.Protocol == 0x8915:
		return "roce"
	case (a.Selector == SelectTCP || a.Selector == SelectPort) && a.Protocol == PortISCSI:
		return "iscsi"
	case (a.Selector == SelectUDP || a.Selector == SelectPort) && a.Protocol == 4791:
		return "rocev2"
	}
	return ""
}
