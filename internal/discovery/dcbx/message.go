package dcbx

import "slices"

// remote is what a peer says of a feature.
type remote struct {
	header
	present bool  // sent, once, and readable
	twice   bool  // sent twice
	err     Error // why it is not present, 0 if it was not sent
}

// message is what an LLDPDU says in one version of DCBX.
type message struct {
	sent     [versions]bool // versions of which it has TLVs
	control  *control       // CEE and CIN; nil: the whole TLV is not usable
	features [Features]remote
	pfc      PFC
	ets      ETS // IEEE: what the peer runs
	cin      cinGroups
	apps     []App // sorted
	counts   [Errors]uint64

	recommends   bool // IEEE
	recommend    ETS
	recommendErr Error // why it does not recommend, 0 if it sent no recommendation
}

// parse reads the values of all TLVs of type 127 of an LLDPDU. It keeps no reference to them.
func parse(v Version, tlvs [][]byte) *message {
	m := &message{}
	for _, tlv := range tlvs {
		of, subtype := identify(tlv)
		if of == Auto {
			continue
		}
		first := !m.sent[of]
		m.sent[of] = true
		switch {
		case of != v:
		case v == IEEE:
			m.ieee(subtype, tlv)
		case !first:
			m.twice()
		default:
			m.legacy(v, tlv)
		}
	}
	slices.SortFunc(m.apps, compareApps)
	m.apps = slices.Compact(m.apps)
	return m
}

// fail notes an error of a feature.
func (m *message) fail(f Feature, err Error) {
	m.counts[err]++
	m.features[f].present, m.features[f].err = false, err
}

// once notes that a feature is there and reports whether it is there for the first time.
func (m *message) once(f Feature) bool {
	r := &m.features[f]
	if r.present || r.err != 0 {
		r.twice = true
		m.fail(f, ErrDuplicate)
		return false
	}
	r.present = true
	return true
}

// twice notes that a TLV or sub-TLV that is for all features was sent twice.
func (m *message) twice() {
	m.counts[ErrDuplicate]++
	m.control = nil
	for f := range m.features {
		m.features[f] = remote{twice: true, err: ErrDuplicate}
	}
}

func (m *message) ieee(subtype uint8, tlv []byte) {
	switch subtype {
	case subtypeRecommend:
		e, _, err := decodeETS(tlv)
		if m.recommends || m.recommendErr != 0 {
			err = ErrDuplicate
		}
		if m.recommend, m.recommends, m.recommendErr = e, err == 0, err; err != 0 {
			m.counts[err]++
		}
	case subtypeETS:
		if m.once(FeatureETS) {
			e, first, err := decodeETS(tlv)
			e.CBS, e.MaxTCs = first&0x40 != 0, (first-1)&7+1
			m.ets, m.features[FeatureETS].header = e, header{enabled: true, willing: first&0x80 != 0}
			if err != 0 {
				m.fail(FeatureETS, err)
			}
		}
	case subtypePFC:
		if m.once(FeaturePFC) {
			p, willing, err := decodePFC(tlv)
			m.pfc, m.features[FeaturePFC].header = p, header{enabled: true, willing: willing}
			if err != 0 {
				m.fail(FeaturePFC, err)
			}
		}
	case subtypeApp:
		if m.once(FeatureApp) {
			var err Error
			m.features[FeatureApp].header = header{enabled: true}
			if m.apps, err = decodeApps(nil, tlv); err != 0 {
				m.fail(FeatureApp, err)
			}
		}
	}
}

// legacy reads the sub-TLVs of CEE or CIN, in any order. Unknown ones are skipped.
func (m *message) legacy(v Version, tlv []byte) {
	if len(tlv) > maxLength {
		m.broken(ErrLength)
		return
	}
	controls, wrong := 0, ErrControl
	var apps [len(cinApps)]bool
	for b := tlv[headerLength:]; len(b) > 0; {
		kind, value, rest, err := cutTLV(b)
		if err != 0 {
			m.broken(err)
			return
		}
		b = rest
		switch kind {
		case subControl:
			controls++
			var c control
			c, wrong = decodeControl(value)
			m.control = &c
		case subGroups, subPFC:
			m.feature(v, kind, value)
		case subAppCEE:
			if v == CEE {
				m.feature(v, kind, value)
			}
		case subAppCIN:
			if v == CIN {
				m.cinApp(value, &apps)
			}
		}
	}
	switch {
	case controls > 1:
		m.twice()
	case wrong != 0:
		m.broken(wrong)
	}
}

// broken notes that a TLV is not readable at all.
func (m *message) broken(err Error) {
	m.counts[err]++
	m.control = nil
	for f := range m.features {
		m.features[f] = remote{err: err}
	}
}

// feature reads a sub-TLV of priority groups, of PFC or of CEE's applications.
func (m *message) feature(v Version, kind int, b []byte) {
	f := [...]Feature{subGroups: FeatureETS, subPFC: FeaturePFC, subAppCEE: FeatureApp}[kind]
	if len(b) < lengthHeader {
		m.fail(f, ErrLength)
		return
	}
	h := decodeHeader(b)
	if h.subtype != 0 || !m.once(f) {
		return
	}
	m.features[f].header = h
	var err Error
	switch {
	case f == FeaturePFC:
		m.pfc, err = decodePFCLegacy(v, b)
	case f == FeatureApp:
		m.apps, err = decodeAppsCEE(b)
	case v == CEE:
		var g ceeGroups
		if g, err = decodeGroupsCEE(b); err == 0 {
			m.ets, err = g.ets()
		}
	default:
		if m.cin, err = decodeGroupsCIN(b); err == 0 {
			m.ets, err = m.cin.ets()
		}
	}
	if err != 0 {
		m.fail(f, err)
	}
}

// cinApp reads an application of CIN. The flags of several applications count together: enabled
// and willing if all are, an error if one has it.
func (m *message) cinApp(b []byte, seen *[len(cinApps)]bool) {
	r := &m.features[FeatureApp]
	if len(b) != lengthAppCIN {
		m.fail(FeatureApp, ErrLength)
		return
	}
	h := decodeHeader(b)
	switch {
	case int(h.subtype) >= len(seen):
		return
	case seen[h.subtype]:
		r.twice = true
		m.fail(FeatureApp, ErrDuplicate)
		return
	case r.err != 0:
		return
	case r.present:
		h.enabled, h.willing = h.enabled && r.enabled, h.willing && r.willing
		h.failed, h.oper = h.failed || r.failed, max(h.oper, r.oper)
	}
	seen[h.subtype] = true
	r.header, r.present = h, true
	known := cinApps[h.subtype]
	if known.Selector == SelectTCP {
		known.Selector = SelectPort
	}
	m.apps = appendPriorities(m.apps, known, b[4])
}
