package dcbxtest

import "math/rand/v2"

// Random returns a random configuration. Values come from small sets, so that two ends are often
// compatible, and most features are enabled and advertised.
func Random(r *rand.Rand, v Version) Config {
	c := Config{
		Version:    v,
		MaxVersion: uint8(r.IntN(3)),
		PFCTCs:     8,
		PFC:        []uint8{0, 0x08, 0x08, 0x18, 0xff}[r.IntN(5)],
		Groups:     randomGroups(r, v),
		Apps:       randomApps(r, v),
		NexusOrder: r.IntN(2) == 0,
	}
	for f := range Features {
		c.Advertise[f] = r.IntN(10) != 0
		c.Enable[f] = r.IntN(10) != 0
		c.Willing[f] = r.IntN(2) == 0
		c.Twice[f] = r.IntN(20) == 0
		c.Fail[f] = r.IntN(20) == 0
	}
	if r.IntN(3) == 0 { // BCN or a logical link, and types that nobody knows
		c.Extra = append(c.Extra, sub(6, []byte{0, 0, 0x80, 0, 0x80})...)
		c.Extra = append(c.Extra, sub(100+r.IntN(20), make([]byte, r.IntN(20)))...)
	}
	return c
}

func randomGroups(r *rand.Rand, v Version) (g Groups) {
	g.Percent = [8]uint8{50, 50}
	g.Group[3] = 1
	if r.IntN(2) == 0 {
		g.Percent, g.Group[4] = [8]uint8{40, 30, 30}, 2
	}
	g.Share = [8]uint8{0: 100, 3: 100, 4: 100 * (g.Group[4] / 2)}
	if v == CEE {
		g.TCs, g.Share = 8, [8]uint8{}
		if r.IntN(2) == 0 {
			g.Group[7] = 15
		}
		return g
	}
	g.Strict[7] = uint8(r.IntN(3))
	return g
}

// randomApps returns applications that both versions have: FCoE, iSCSI and FIP.
func randomApps(r *rand.Rand, v Version) (apps []Application) {
	all := []Application{{Protocol: 0x8906, OUI: 0x001b21}, {Protocol: 3260, Selector: 1, OUI: 0x001b21},
		{Protocol: 0x8914, OUI: 0x001b21}}
	for i, a := range all {
		if v == CIN {
			a = Application{Protocol: uint16(i)}
		}
		if a.Priorities = []uint8{0x08, 0x08, 0x08, 0x10, 0x10, 0x18}[r.IntN(6)]; r.IntN(2) == 0 {
			apps = append(apps, a)
		}
	}
	r.Shuffle(len(apps), func(i, j int) { apps[i], apps[j] = apps[j], apps[i] })
	return apps
}
