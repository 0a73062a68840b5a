package show

import (
	"fmt"
	"slices"
	"strings"

	"sluice/internal/state"
	"sluice/internal/text/prose"
)

const fcoeDraws = PartPorts | PartFCoE

// The views of FIP snooping.
var (
	FCoE         = View{Draws: fcoeDraws, tables: fcoeTables}
	FCoEFCFs     = View{Draws: fcoeDraws, tables: fcfTables}
	FCoEENodes   = View{Draws: fcoeDraws, tables: enodeTables}
	FCoECounters = View{Draws: fcoeDraws, tables: fcoeCounterTables}
)

// FCoESessions shows the sessions, one line each, or all that is known of each.
func FCoESessions(detail bool) View {
	if detail {
		return View{Draws: fcoeDraws, tables: sessionDetails}
	}
	return View{Draws: fcoeDraws, tables: sessionTables}
}

const fcoeOff = "The configuration has no FIP snooping (fcoe.instances)."

// fcoeOf returns what FIP snooping knows, and what to print where that is nothing.
func fcoeOf(r *state.Switch) (f *state.FCoE, none string) {
	if r.FCoE == nil {
		return &state.FCoE{}, fcoeOff
	}
	return r.FCoE, "none"
}

// fcoeTables shows the instances, how full the tables are, the ports and the sessions.
func fcoeTables(r *state.Switch) []table {
	if r.FCoE == nil {
		return []table{{none: fcoeOff, apart: byPort | byVLAN}}
	}
	instances := table{apart: byVLAN, none: "none", columns: []column{text("INSTANCE"), number("VLAN"),
		text("FC-MAP"), number("FCFS"), number("ENODES"), number("SESSIONS")}}
	for i := range r.FCoE.Instances {
		in := &r.FCoE.Instances[i]
		instances.rows = append(instances.rows, []any{in.Name, in.VLAN, in.FCMap, in.FCFs, in.ENodes, in.Sessions})
	}
	return append([]table{instances, limitTable(r), fcoePortTable(r)}, sessionTables(r)...)
}

// limitTable shows how full the tables are, and notes the limits to be raised.
func limitTable(r *state.Switch) table {
	of := &r.FCoE.Tables
	t := table{columns: []column{text("TABLE"), number("USED"), number("LIMIT")}}
	for _, one := range []struct {
		name string
		of   state.FCoETable
	}{{"FCFs", of.FCFs}, {"ENodes", of.ENodes}, {"sessions", of.Sessions}, {"pending logins", of.Pending}} {
		t.rows = append(t.rows, []any{one.name, one.of.Used, one.of.Limit})
	}
	for _, l := range r.FCoELimits() {
		where := ""
		if l.Port != "" {
			where = l.Port + ": "
		}
		t.notes = append(t.notes, fmt.Sprintf("%swhat exceeds the limit of %d was refused: raise %s", where, l.Limit,
			l.Key))
	}
	return t
}

func fcoePortTable(r *state.Switch) table {
	t := table{apart: byPort, columns: []column{text("PORT"), text("ROLE"), number("ENODES"), number("SESSIONS"),
		count("FIP RX"), count("REFUSED"), count("LOGINS"), count("REJECTED"), count("NO REPLY")}}
	for i := range r.Ports {
		p := &r.Ports[i]
		x := p.FCoE
		if x == nil {
			continue
		}
		enodes, sessions := Nothing, Nothing
		if x.Role != "fcf" {
			enodes = of{x.ENodes.Used, x.ENodes.Limit, true}.String()
			sessions = of{x.Sessions.Used, x.Sessions.Limit, true}.String()
		}
		t.rows = append(t.rows, []any{p.Name, x.Role, enodes, sessions, x.Received, x.Refused, x.Accepted, x.Rejected,
			x.Unanswered})
		if x.Listed > 0 {
			t.notes = append(t.notes, fmt.Sprintf("%s: only hosts in enodes (%s) may log in", p.Name,
				prose.Count(x.Listed, "name")))
		}
		for _, l := range x.LastRefusals() {
			t.notes = append(t.notes, fmt.Sprintf("%s: last refused %v", p.Name, l))
		}
	}
	if e := r.FCoE.StateFile.Error; e != "" {
		t.notes = append(t.notes, "sessions would end with a restart, since the state file can't be written: "+e)
	}
	return t
}

func sessionTables(r *state.Switch) []table {
	f, none := fcoeOf(r)
	t := table{apart: byPort | byVLAN, none: none, columns: []column{number("VLAN"), text("VN_PORT"), text("FC_ID"),
		long("WWPN"), text("PORT"), text("FCF AT"), number("LEFT")}}
	if none != fcoeOff {
		t.title = "Sessions:"
	}
	restored := 0
	for i := range f.Sessions {
		s := &f.Sessions[i]
		t.rows = append(t.rows, []any{s.VLAN, s.VNPort, s.FCID, s.WWPN, s.Port, s.FCFPort, lifetime(s.ExpiresInNS)})
		if s.Restored {
			restored++
		}
	}
	if restored > 0 {
		t.notes = []string{prose.Count(restored, "session") + " restored after a restart, without a keep-alive since"}
	}
	all := []table{t}
	if len(f.Pending) > 0 {
		all = append(all, pendingTable(f))
	}
	return all
}

func pendingTable(f *state.FCoE) table {
	t := table{title: "Logins without a reply yet:", apart: byPort | byVLAN, columns: []column{number("VLAN"),
		text("ENODE"), text("PORT"), text("FCF"), text("LOGIN"), number("SINCE"), number("LEFT")}}
	for i := range f.Pending {
		l := &f.Pending[i]
		t.rows = append(t.rows, []any{l.VLAN, l.ENode, l.Port, l.FCF, l.Login, age(l.SinceNS), lifetime(l.ExpiresInNS)})
	}
	return t
}

// lifetime is the time in ns until something expires, printed rounded; 0: it does not.
type lifetime int64

func (l lifetime) String() string {
	if l == 0 {
		return Nothing
	}
	return seconds(l).String()
}

func fcfTables(r *state.Switch) []table {
	f, none := fcoeOf(r)
	t := table{apart: byPort | byVLAN, none: none, columns: []column{number("VLAN"), text("FCF"), text("PORT"),
		number("PRIO"), number("FKA"), number("SESSIONS"), number("LEFT")}}
	names := table{apart: byPort | byVLAN, columns: []column{number("VLAN"), text("FCF"), text("SWITCH"),
		text("FABRIC")}}
	for i := range f.FCFs {
		c := &f.FCFs[i]
		names.rows = append(names.rows, []any{c.VLAN, c.MAC, c.Name, c.Fabric})
		fka := age(c.FKANS).String()
		if c.NoKeepAlive {
			fka = "off"
		}
		t.rows = append(t.rows, []any{c.VLAN, c.MAC, c.Port, c.Priority, fka, c.Sessions,
			lifetime(c.ExpiresInNS)})
		if !c.Available {
			t.notes = append(t.notes, fmt.Sprintf("%s in VLAN %d accepts no logins, as it says", c.MAC, c.VLAN))
		}
		if c.Restored {
			t.notes = append(t.notes, fmt.Sprintf("%s in VLAN %d was restored after a restart, and has not advertised "+
				"itself since", c.MAC, c.VLAN))
		}
	}
	if len(f.FCFs) == 0 {
		return []table{t}
	}
	return []table{t, names}
}

func enodeTables(r *state.Switch) []table {
	f, none := fcoeOf(r)
	t := table{apart: byPort | byVLAN, none: none, columns: []column{number("VLAN"), text("ENODE"), text("PORT"),
		text("FCF"), number("SESSIONS"), number("AGE"), number("LEFT")}}
	for i := range f.ENodes {
		e := &f.ENodes[i]
		t.rows = append(t.rows, []any{e.VLAN, e.MAC, e.Port, e.FCF, e.Sessions, age(e.SinceNS),
			lifetime(e.ExpiresInNS)})
	}
	return []table{t}
}

func sessionDetails(r *state.Switch) (all []table) {
	f, _ := fcoeOf(r)
	for i := range f.Sessions {
		s := &f.Sessions[i]
		since := age(s.SinceNS).String() + " ago, by " + strings.ToUpper(s.Login)
		if s.Restored {
			since += "; restored after a restart, without a keep-alive since"
		}
		all = append(all, table{title: fmt.Sprintf("VLAN %d, %s:", s.VLAN, s.VNPort), apart: byPort | byVLAN,
			body: facts([]fact{{"FC_ID", s.FCID}, {"WWPN", s.WWPN}, {"WWNN", s.WWNN},
				{"ENode", s.ENode + " at " + s.Port}, {"FCF", s.FCF + " at " + s.FCFPort}, {"logged in", since},
				{"expires", "in " + age(s.ExpiresInNS).String() + " if host and FCF fall silent"}})})
	}
	if len(all) == 0 {
		return sessionTables(r) // that says why there is none
	}
	return all
}

// fcoeCounterTables shows what was refused and what has ended, by reason.
func fcoeCounterTables(r *state.Switch) []table {
	refused := table{title: "FIP frames refused:", apart: byPort, none: "none", columns: []column{text("PORT"),
		text("REASON"), count("FRAMES"), number("LAST"), number("VLAN"), text("FROM")}}
	dropped := table{title: "Frames dropped without being read:", apart: byPort, none: "none",
		columns: []column{text("PORT"), text("REASON"), count("FRAMES")}}
	ended := table{title: "Sessions ended:", apart: byPort, none: "none", columns: []column{text("PORT"),
		text("REASON"), count("SESSIONS")}}
	if r.FCoE == nil {
		return []table{{none: fcoeOff, apart: byPort | byVLAN}}
	}
	for i := range r.Ports {
		p := &r.Ports[i]
		if p.FCoE == nil {
			continue
		}
		for _, one := range p.FCoE.Refusals {
			last := []any{Nothing, Nothing, Nothing}
			if l := one.Last; l != nil {
				last = []any{age(l.AgoNS), l.VLAN, l.Source}
			}
			refused.rows = append(refused.rows, append([]any{p.Name, one.Reason, one.Frames}, last...))
		}
		for _, reason := range fcoeDrops {
			if n := droppedFor(p, reason); n > 0 {
				dropped.rows = append(dropped.rows, []any{p.Name, reason, n})
			}
		}
		for _, one := range p.FCoE.Endings {
			ended.rows = append(ended.rows, []any{p.Name, one.Reason, one.Sessions})
		}
	}
	return []table{refused, dropped, ended}
}

// fcoeDrops are the reasons of drops in the frame path that explain why a host can't log in or has
// no access: FCoE without a session, what has no place in an FCoE VLAN, hides behind further tags
// or came in a VLAN that the port is not in, and FIP or LLDP that comes too fast.
var fcoeDrops = []string{"fcoe_session", "fcoe_vlan", "second_tag", "vlan_ingress", "punt_rate", "punt_full"}

// droppedFor adds up the frames of all CoS that a port dropped for a reason.
func droppedFor(p *state.Port, reason string) (frames uint64) {
	for _, d := range p.Drops {
		if d.Reason == reason {
			frames += d.Frames
		}
	}
	return frames
}

// filterFCoE removes what the filter excludes.
func (f *Filter) filterFCoE(x *state.FCoE) {
	if f.names()&byPort != 0 {
		x.Instances = nil // their numbers are those of all ports
	}
	other := func(vlan uint16, ports ...string) bool {
		here := slices.ContainsFunc(ports, func(p string) bool { return !lacks(f.Ports, p) })
		return lacks(f.VLANs, int(vlan)) || !here
	}
	x.Instances = slices.DeleteFunc(x.Instances, func(i state.FCoEInstance) bool { return lacks(f.VLANs, int(i.VLAN)) })
	x.FCFs = slices.DeleteFunc(x.FCFs, func(c state.FCF) bool { return other(c.VLAN, c.Port) })
	x.ENodes = slices.DeleteFunc(x.ENodes, func(e state.ENode) bool { return other(e.VLAN, e.Port) })
	x.Sessions = slices.DeleteFunc(x.Sessions, func(s state.FCoESession) bool {
		return other(s.VLAN, s.Port, s.FCFPort)
	})
	x.Pending = slices.DeleteFunc(x.Pending, func(l state.FCoELogin) bool { return other(l.VLAN, l.Port) })
}
