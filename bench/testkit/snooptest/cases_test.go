package snooptest_test

import (
	"testing"
	"time"

	"sluice/bench/testkit/snooptest"
	"sluice/internal/frame"
)

const (
	flogi = snooptest.FLOGI
	fdisc = snooptest.FDISC
	logo  = snooptest.LOGO
)

func TestDiscovery(t *testing.T) {
	ask, tell := snooptest.AskVLAN(enode1), snooptest.TellVLAN(fcf1, enode1)
	solicit := snooptest.Solicit(enode1)
	solicited := flags(snooptest.FlagFP|snooptest.FlagA|snooptest.FlagS|snooptest.FlagF, to(enode1, advert(fcf1)))
	solicited.Pad = 2158 - len(solicited.Bytes()) + 14
	runAll(t, []script{
		{"a VLAN request reaches FCF ports only", nil, []step{
			on("e1", ask, "f1 f2 t1"), in(200, "e1", ask, "f1 f2 t1"), in(1, "e1", ask, "f1 f2 t1"),
			on("t1", snooptest.AskVLAN(enodeT), "f1 f2"),
			on("e1", from(enode2, ask), "bad_source"), on("e1", to(snooptest.AllENodes, ask), "rogue_fcf"),
			on("e1", to(fcf1, ask), "bad_destination"), on("e1", to(snooptest.AllFCoE, ask), "bad_destination"),
			on("e1", to(frame.Broadcast, ask), "bad_destination"),
			on("f1", ask, "rogue_enode"), in(300, "e1", ask, "wrong_vlan"),
		}},
		{"a VLAN notification comes from FCFs only", nil, []step{
			on("f1", tell, "e1 e2 e3 t1"), in(1, "f1", tell, "e1 e2 e3 t1"), in(200, "f2", tell, "e1 e2 e3 t1"),
			on("e2", tell, "rogue_fcf"), in(1, "e2", tell, "rogue_fcf"), on("f1", from(fcf2, tell), "bad_source"),
		}},
		{"a VLAN notification to a known ENode goes to its port alone", loggedIn(), []step{
			on("f1", tell, "e1"), on("f2", from(fcf2, snooptest.TellVLAN(fcf2, enode1)), "e1"),
			on("f2", tell, "fcf_conflict"),
		}},
		{"a solicitation leaves nothing behind", known(), []step{
			on("e1", solicit, "f1 f2 t1"), on("e1", to(fcf1, solicit), "f1"),
			on("e1", to(fcf2, solicit), "unknown_fcf"),
			on("e1", from(enode2, solicit), "bad_source"), in(1, "e1", solicit, "wrong_vlan"),
			on("e1", snooptest.Solicit(fcf1), "fcf_address"), on("e1", snooptest.Solicit(vn1), "bad_source"),
			on("e1", snooptest.Solicit(0), "bad_source"),
			on("e1", snooptest.Solicit(snooptest.AllFCFs), "bad_source"),
			on("e2", solicit, "f1 f2 t1"), // who has not logged in is bound to no port
		}},
		{"FCFs solicit each other", nil, []step{
			on("f1", flags(snooptest.FlagF, snooptest.Solicit(fcf1)), "f2 t1"),
			on("e1", flags(snooptest.FlagF, snooptest.Solicit(fcf1)), "rogue_fcf"),
			on("f1", snooptest.Solicit(enode1), "rogue_enode"),
		}},
		{"an advertisement reaches ENode ports only", nil, []step{
			on("f1", advert(fcf1), "e1 e2 e3 t1"), on("t1", advert(fcfT), "e1 e2 e3"),
			on("f1", solicited, "e1 e2 e3 t1"), in(1, "f1", advert(fcf1), "wrong_vlan"),
			on("e1", advert(fcf2), "rogue_fcf"), on("e1", advert(enode1), "rogue_fcf"),
			on("f1", snooptest.Advertise(fcf2, fcMap+1, 8000, false), "fc_map_mismatch"),
			on("f1", snooptest.Advertise(fcf2, 0x0efd00, 8000, false), "fc_map_mismatch"),
			on("f1", from(fcf2, advert(fcf1)), "bad_source"), on("f2", advert(fcf1), "fcf_conflict"),
			on("f1", advert(vn1), "bad_source"), on("f1", advert(0), "bad_source"),
		}},
		{"virtual links without an FCF do not exist", nil, []step{
			on("e1", snooptest.Message{Dst: snooptest.AllVN2VN, Src: enode1, Op: snooptest.VN2VNVLAN,
				List: [][]byte{snooptest.MAC(enode1)}}, "vn2vn"),
			on("e1", to(snooptest.AllVN2VN, ask), "vn2vn"), on("e1", to(snooptest.AllP2P, solicit), "vn2vn"),
		}},
	})
}

func TestLogin(t *testing.T) {
	login := snooptest.Login(flogi, enode1, fcf1, 1, name1)
	accept := func(vn frame.MAC, id uint32) snooptest.Message {
		return snooptest.Accept(flogi, fcf1, enode1, 1, vn, id)
	}
	runAll(t, []script{
		{"the first FCoE frame after the accept passes, none before", known(), []step{
			data("e1", vn1, fcf1, ""), on("e1", login, "f1"), data("e1", vn1, fcf1, ""), data("f1", fcf1, vn1, ""),
			leaves(1, on("f1", accept(vn1, id1), "e1")), data("e1", vn1, fcf1, "f1"), data("f1", fcf1, vn1, "e1"),
		}},
		{"a login to nobody", nil, []step{
			on("e1", login, "unknown_fcf"), on("e1", to(snooptest.AllFCFs, login), "bad_destination"),
		}},
		{"a login from what is no ENode", known(), []step{
			on("f2", login, "rogue_enode"), on("e1", from(fcf1, login), "fcf_address"),
			on("e1", from(vn1, login), "bad_source"),
			on("e1", from(0, login), "bad_source"), on("e1", from(snooptest.AllENodes, login), "bad_source"),
		}},
		{"a login that is none", known(), []step{
			on("e1", service(login, func(e *snooptest.ELS) { e.SID = id1 }), "bad_login"),
			on("e1", service(login, func(e *snooptest.ELS) { e.DID = 0xfffffc }), "bad_login"),
			on("e1", service(login, func(e *snooptest.ELS) { e.Command = 0x51 }), "bad_els"),
			on("e1", service(login, func(e *snooptest.ELS) { e.RCTL = 0x23 }), "bad_els"),
			on("e1", snooptest.Login(fdisc, enode1, fcf1, 1, name1), "no_flogi"),
		}},
	})
}

func TestAccept(t *testing.T) {
	login := snooptest.Login(flogi, enode1, fcf1, 1, name1)
	accept := func(vn frame.MAC, id uint32) snooptest.Message {
		return snooptest.Accept(flogi, fcf1, enode1, 1, vn, id)
	}
	asked := append(known(), on("e1", login, "f1"))
	runAll(t, []script{
		{"an accept with a wrong address", asked, []step{
			on("f1", accept(vn2, id1), "fpma_mismatch"), on("f1", accept(vn1+1<<24, id1), "fpma_mismatch"),
			on("f1", accept(0, id1), "fpma_mismatch"), on("f1", accept(vn1|1<<40, id1), "fpma_mismatch"),
			on("f1", accept(enode1, id1), "fpma_mismatch"), on("f1", accept(fcMap<<24, 0), "bad_fc_id"),
			on("f1", accept(fcMap<<24|0xffff, 0xffff), "bad_fc_id"),
			on("f1", accept(fcMap<<24|0xfffffe, 0xfffffe), "bad_fc_id"),
			on("f1", flags(0, accept(vn1, id1)), "not_fpma"),
			on("f1", flags(snooptest.FlagSP, accept(vn1, id1)), "not_fpma"),
			leaves(1, on("f1", accept(vn1, id1), "e1")),
		}},
		{"an accept that nobody asked for", asked, []step{
			on("f1", snooptest.Accept(flogi, fcf1, enode2, 1, vn1, id1), "no_request"),
			on("f1", snooptest.Accept(flogi, fcf1, enode1, 2, vn1, id1), "no_request"),
			on("f1", snooptest.Accept(fdisc, fcf1, enode1, 1, vn1, id1), "no_request"),
			on("f2", advert(fcf2), "e1 e2 e3 t1"),
			on("f2", snooptest.Accept(flogi, fcf2, enode1, 1, vn1, id1), "no_request"),
			on("f2", accept(vn1, id1), "fcf_conflict"), on("e2", accept(vn1, id1), "rogue_fcf"),
			on("f1", to(snooptest.AllENodes, accept(vn1, id1)), "bad_destination"),
			leaves(1, on("f1", accept(vn1, id1), "e1")), on("f1", accept(vn1, id1), "no_request"),
		}},
		{"an accept in time, and one too late", append(known(), on("f1", snooptest.Advertise(fcf1, fcMap, 60000, false),
			"e1 e2 e3 t1"), on("e1", login, "f1")), []step{
			after(20*time.Second, on("f1", accept(vn1, id1), "no_request")), on("e1", login, "f1"),
			leaves(1, after(20*time.Second-1, on("f1", accept(vn1, id1), "e1"))),
		}},
		{"a rejected login", asked, []step{
			on("f1", snooptest.Reject(flogi, fcf1, enode1, 1), "e1"), on("f1", accept(vn1, id1), "no_request"),
			data("e1", vn1, fcf1, ""),
		}},
		{"the OX_ID again", asked, []step{
			after(19*time.Second, on("e1", login, "f1")), on("f1", advert(fcf1), "e1 e2 e3 t1"),
			leaves(1, after(19*time.Second, on("f1", accept(vn1, id1), "e1"))),
			on("f1", accept(vn2, id2), "no_request"),
		}},
		{"another ENode's login in flight excludes nobody", asked, []step{
			on("e2", snooptest.Login(flogi, enode1, fcf1, 9, name1), "f1"),
			leaves(1, on("f1", accept(vn1, id1), "e1")), on("e2", login, "enode_conflict"),
			leaves(1, on("f1", snooptest.Accept(flogi, fcf1, enode1, 9, vn2, id2), "enode_conflict")),
			data("e1", vn1, fcf1, "f1"),
		}},
		{"the OX_ID again, from another port", asked, []step{
			on("e2", login, "f1"), leaves(1, on("f1", accept(vn1, id1), "e2")), data("e2", vn1, fcf1, "f1"),
		}},
		{"FLOGI again", twoLinks(), []step{
			on("e1", login, "f1"), data("e1", vn1, fcf1, "f1"), data("e1", vn2, fcf1, "f1"),
			leaves(1, on("f1", accept(vn1, id1), "e1")), data("e1", vn1, fcf1, "f1"), data("e1", vn2, fcf1, ""),
			on("e1", login, "f1"), leaves(1, on("f1", accept(vn2, id2), "e1")),
			data("e1", vn1, fcf1, ""), data("e1", vn2, fcf1, "f1"),
		}},
		{"FDISC to another FCF than FLOGI", append(loggedIn(), on("f2", advert(fcf2), "e1 e2 e3 t1")), []step{
			on("e1", snooptest.Login(fdisc, enode1, fcf2, 1, name2), "no_flogi"),
			in(200, "e1", snooptest.Login(fdisc, enode1, fcf1, 1, name2), "unknown_fcf"),
		}},
		{"FDISC of somebody else", twoHosts(), []step{
			on("e2", from(enode1, snooptest.Login(fdisc, enode2, fcf1, 1, name2)), "enode_conflict"),
			on("e3", snooptest.Login(fdisc, enode2, fcf1, 1, name2), "enode_conflict"),
		}},
	})
}

func service(m snooptest.Message, change func(*snooptest.ELS)) snooptest.Message {
	e := *m.Service
	change(&e)
	m.Service = &e
	return m
}

func TestSpoofing(t *testing.T) {
	own := snooptest.Logout(enode2, fcf1, 3, vn2, id2)
	runAll(t, []script{
		{"what only an FCF sends, from an ENode port", twoHosts(), []step{
			on("e2", advert(fcf1), "rogue_fcf"), on("e2", advert(enode2), "rogue_fcf"),
			on("e2", snooptest.Clear(fcf1, enode1), "rogue_fcf"),
			on("e2", snooptest.Clear(fcf1, snooptest.AllENodes), "rogue_fcf"),
			on("e2", snooptest.Accept(flogi, fcf1, enode1, 1, vn1, id1), "rogue_fcf"),
			on("e2", snooptest.Reject(flogi, fcf1, enode1, 1), "rogue_fcf"),
			on("e2", snooptest.AcceptLogout(fcf1, enode1, 1), "rogue_fcf"),
			on("e2", snooptest.TellVLAN(fcf1, enode1), "rogue_fcf"),
			on("e2", to(snooptest.AllENodes, snooptest.Solicit(enode2)), "rogue_fcf"),
			leaves(2, on("e2", to(enode1, snooptest.Keep(enode2, fcf1)), "unknown_fcf")),
		}},
		{"the FCF's address", twoHosts(), []step{
			on("e2", snooptest.Solicit(fcf1), "fcf_address"), on("e2", snooptest.AskVLAN(fcf1), "fcf_address"),
			on("e2", snooptest.Login(flogi, fcf2, fcf1, 1, name2), "fcf_address"),
			on("e2", snooptest.Keep(fcf2, fcf1), "fcf_address"),
			data("e2", fcf1, vn1, ""), data("e2", fcf1, vn2, ""), data("f2", fcf1, vn1, ""),
			data("e1", fcf1, vn1, ""),
			on("f2", advert(fcf1), "fcf_conflict"), on("t1", advert(fcf1), "fcf_conflict"),
			on("f2", snooptest.Clear(fcf1, enode1), "fcf_conflict"),
		}},
		{"a valid address from another port", twoHosts(), []step{
			data("e2", vn1, fcf1, ""), data("e3", vn1, fcf1, ""), data("f2", vn1, fcf1, ""),
			data("t1", vn1, fcf1, ""),
			data("e1", vn1, fcf1, "f1"),
		}},
		{"FCoE past the FCF", twoHosts(), []step{
			data("e1", vn1, vn2, ""), data("e1", vn1, enode2, ""), data("e1", vn1, fcf2, ""),
			data("e1", enode1, fcf1, ""),
			data("e1", vn1, frame.Broadcast, ""), data("e1", vn1, snooptest.AllFCFs, ""), data("f2", fcf2, vn1, ""),
			data("f1", fcf1, vn1+7, ""), data("f1", fcf1, fcf2, ""),
		}},
		{"another ENode's keep-alives", twoHosts(), []step{
			on("e2", snooptest.Keep(enode1, fcf1), "enode_conflict"),
			on("e2", from(enode2, snooptest.Keep(enode1, fcf1)), "bad_source"),
			on("e2", snooptest.KeepVN(enode1, fcf1, vn1, id1, name1), "no_session"),
			on("e2", snooptest.KeepVN(enode2, fcf1, vn1, id1, name1), "no_session"),
			on("e2", snooptest.KeepVN(enode2, fcf1, vn2, id1, name2), "no_session"),
			on("e2", snooptest.KeepVN(enode2, fcf2, vn2, id2, name2), "no_session"),
			on("e2", snooptest.Keep(enode2, fcf2), "no_session"),
			on("e3", snooptest.Keep(0x0200_0000_0077, fcf1), "no_session"),
			on("e2", snooptest.KeepVN(enode2, fcf1, vn2, id2, name2), "f1"),
			on("e2", snooptest.Keep(enode2, fcf1), "f1"),
		}},
		{"another ENode's LOGO", twoHosts(), []step{
			on("e2", snooptest.Logout(enode1, fcf1, 3, vn1, id1), "enode_conflict"),
			on("e2", snooptest.Logout(enode2, fcf1, 3, vn1, id1), "no_session"),
			on("e2", snooptest.Logout(enode2, fcf1, 3, vn2, id1), "no_session"),
			on("e2", snooptest.Logout(enode2, fcf1, 3, vn1, id2), "no_session"),
			on("e2", snooptest.Logout(enode2, fcf2, 3, vn2, id2), "no_session"),
			on("e2", service(own, func(e *snooptest.ELS) { e.ID = id1 }), "no_session"),
			on("e2", service(own, func(e *snooptest.ELS) { e.DID = id1 }), "bad_login"),
			leaves(2, on("f1", snooptest.AcceptLogout(fcf1, enode1, 3), "no_request")),
		}},
	})
}

// TestConflicts: FCFs that give what others have.
func TestConflicts(t *testing.T) {
	runAll(t, []script{
		{"an FCF that takes an ENode's address", twoHosts(), []step{
			leaves(1, on("f2", advert(enode2), "e1 e2 e3 t1")), data("e2", vn2, fcf1, ""),
		}},
		{"an FC_ID given twice", twoHosts(), []step{
			on("e2", snooptest.Login(fdisc, enode2, fcf1, 5, name2), "f1"),
			leaves(2, on("f1", snooptest.Accept(fdisc, fcf1, enode2, 5, vn1, id1), "e2")), // the newer wins
			data("e1", vn1, fcf1, ""), data("e2", vn1, fcf1, "f1"), data("f1", fcf1, vn1, "e2"),
			on("e1", snooptest.Keep(enode1, fcf1), "no_session"), // it had nothing else
		}},
		{"an FC_ID given by another FCF", twoHosts(), []step{
			on("e2", snooptest.Login(flogi, enode2, fcf2, 5, name2), "f2"),
			leaves(2, on("f2", snooptest.Accept(flogi, fcf2, enode2, 5, vn1, id1), "fpma_conflict")),
			data("e1", vn1, fcf1, "f1"), data("e2", vn1, fcf2, ""),
			leaves(3, on("f2", snooptest.Accept(flogi, fcf2, enode2, 5, vn1+7, id1+7), "e2")), // two FCFs, one ENode
			data("e2", vn1+7, fcf2, "f2"), data("e2", vn1+7, fcf1, ""), data("e2", vn2, fcf1, "f1"),
		}},
		{"ELP", loggedIn(), []step{
			on("f1", elp(fcf1, fcf2), "unsupported"), on("t1", elp(fcfT, fcf1), "unsupported"),
		}},
	})
}

func elp(src, dst frame.MAC) snooptest.Message {
	return with(snooptest.Login(flogi, src, dst, 1, name1), func(m *snooptest.Message) {
		m.Service = &snooptest.ELS{Kind: 10, RCTL: 0x22, Type: 1, Command: 0x10, Payload: 104}
	})
}

func TestLogout(t *testing.T) {
	logout := snooptest.Logout(enode1, fcf1, 3, vn1, id1)
	runAll(t, []script{
		{"LOGO accepted", twoLinks(), []step{
			on("e1", logout, "f1"), data("e1", vn1, fcf1, "f1"), // not before it is accepted
			leaves(1, on("f1", snooptest.AcceptLogout(fcf1, enode1, 3), "e1")),
			data("e1", vn1, fcf1, ""), data("e1", vn2, fcf1, "f1"), // the one of FDISC stays
			on("e1", snooptest.Keep(enode1, fcf1), "f1"), on("e1", logout, "no_session"),
			on("e1", snooptest.Logout(enode1, fcf1, 4, vn2, id2), "f1"),
			leaves(0, on("f1", snooptest.AcceptLogout(fcf1, enode1, 4), "e1")),
			on("e1", snooptest.Keep(enode1, fcf1), "no_session"),
			on("e1", snooptest.Login(fdisc, enode1, fcf1, 1, name1), "no_flogi"),
		}},
		{"LOGO rejected, or forgotten", loggedIn(), []step{
			on("e1", logout, "f1"), leaves(1, on("f1", snooptest.Reject(logo, fcf1, enode1, 3), "e1")),
			leaves(1, on("f1", snooptest.AcceptLogout(fcf1, enode1, 3), "no_request")),
			on("f1", snooptest.Advertise(fcf1, fcMap, 60000, false), "e1 e2 e3 t1"), on("e1", logout, "f1"),
			leaves(1, after(20*time.Second, on("f1", snooptest.AcceptLogout(fcf1, enode1, 3), "no_request"))),
		}},
		{"LOGO accepted after a new login", loggedIn(), []step{
			on("e1", logout, "f1"), on("e1", snooptest.Login(flogi, enode1, fcf1, 4, name1), "f1"),
			leaves(1, on("f1", snooptest.Accept(flogi, fcf1, enode1, 4, vn2, id2), "e1")),
			leaves(1, on("f1", snooptest.AcceptLogout(fcf1, enode1, 3), "e1")), data("e1", vn2, fcf1, "f1"),
		}},
	})
}

func TestClearVirtualLinks(t *testing.T) {
	vx := snooptest.VxPort
	runAll(t, []script{
		{"clear virtual links of an ENode", append(twoLinks(), twoHosts()[3:4]...), []step{
			leaves(2, on("f2", snooptest.Clear(fcf2, enode1), "e1")), // not this FCF's
			leaves(0, on("f1", snooptest.Clear(fcf1, enode1), "e1")), data("e1", vn1, fcf1, ""),
			data("f1", fcf1, vn2, ""),
		}},
		{"clear virtual links by name", twoLinks(), []step{
			leaves(2, on("f1", plus(snooptest.Clear(fcf1, enode1), vx(vn1, id2, name1)), "e1")),
			leaves(2, on("f1", plus(snooptest.Clear(fcf1, enode1), vx(vn1+7, id1, name1)), "e1")),
			leaves(2, on("f1", plus(snooptest.Clear(fcf1, enode1), vx(vn1, id1, name2)), "e1")),
			leaves(1, on("f1", plus(snooptest.Clear(fcf1, enode1), vx(vn1, id1, name1)), "e1")),
			data("e1", vn2, fcf1, "f1"),
			leaves(0, on("f1", plus(snooptest.Clear(fcf1, enode1), vx(vn2, id2, name2), vx(vn1, id1, name1)), "e1")),
		}},
		{"clear virtual links of all", twoHosts(), []step{
			leaves(2, on("f2", snooptest.Clear(fcf2, snooptest.AllENodes), "e1 e2 e3 t1")),
			leaves(0, on("f1", snooptest.Clear(fcf1, snooptest.AllENodes), "e1 e2 e3 t1")),
		}},
		{"clear virtual links of one of two hosts", twoHosts(), []step{
			// it is not ENode 1's
			leaves(2, on("f1", plus(snooptest.Clear(fcf1, enode1), vx(vn2, id2, name2)), "e1")),
			leaves(1, on("f1", snooptest.Clear(fcf1, enode2), "e2")), data("e1", vn1, fcf1, "f1"),
			leaves(0, on("f1", plus(snooptest.Clear(fcf1, snooptest.AllENodes), vx(vn1, id1, name1)), "e1 e2 e3 t1")),
		}},
		{"clear virtual links that is none", twoHosts(), []step{
			on("f1", with(snooptest.Clear(fcf1, enode1), func(m *snooptest.Message) {
				m.List = [][]byte{snooptest.MAC(fcf1), snooptest.Name(1)}
			}), "bad_name"),
			on("f1", from(fcf2, snooptest.Clear(fcf1, enode1)), "bad_source"),
			on("f1", snooptest.Clear(0xaa00, enode1), "unknown_fcf"),
			on("f1", to(snooptest.AllFCFs, snooptest.Clear(fcf1, enode1)), "bad_destination"),
			leaves(2, on("f2", snooptest.Clear(fcf1, enode1), "fcf_conflict")),
		}},
	})
}

func TestPortDown(t *testing.T) {
	runAll(t, []script{
		{"the ENode's port down", append([]step{up("e1"), up("e2"), up("f1")}, twoHosts()...), []step{
			leaves(2, down("e3")), leaves(1, down("e1")), data("e1", vn1, fcf1, ""), data("e2", vn2, fcf1, "f1"),
			up("e1"), on("e1", snooptest.Login(fdisc, enode1, fcf1, 1, name1), "no_flogi"),
			on("e1", snooptest.Login(flogi, enode1, fcf1, 1, name1), "f1"),
		}},
		{"the FCF's port down", append([]step{up("f1"), up("f2")}, twoHosts()...), []step{
			leaves(2, down("f2")), leaves(0, down("f1")),
			on("e1", snooptest.Login(flogi, enode1, fcf1, 1, name1), "unknown_fcf"),
		}},
		{"a port down that was never up", twoHosts(), []step{leaves(2, down("e1")), leaves(2, down("f1"))}},
		{"a login in flight when a port goes down", append([]step{up("e1")}, known()...), []step{
			on("e1", snooptest.Login(flogi, enode1, fcf1, 1, name1), "f1"), down("e1"),
			on("f1", snooptest.Accept(flogi, fcf1, enode1, 1, vn1, id1), "no_request"),
			on("e2", snooptest.Login(flogi, enode1, fcf1, 1, name1), "f1"), // and may move
		}},
	})
}

func TestConfiguration(t *testing.T) {
	change := func(f func(c *snooptest.Config)) step { return configure(f) }
	runAll(t, []script{
		{"the same again", twoHosts(), []step{leaves(2, change(func(*snooptest.Config) {}))}},
		{"another role of the ENode's port", twoHosts(), []step{
			leaves(1, change(func(c *snooptest.Config) { c.Ports[0].Role = snooptest.TrustedPort })),
			data("e1", vn1, fcf1, ""), data("e2", vn2, fcf1, "f1"),
		}},
		{"another role of the FCF's port", twoHosts(), []step{
			leaves(0, change(func(c *snooptest.Config) { c.Ports[3].Role = snooptest.TrustedPort })),
		}},
		{"a port that leaves the VLAN", twoHosts(), []step{
			leaves(1, change(func(c *snooptest.Config) { c.Ports[0].VLANs = []uint16{200} })),
			on("e1", snooptest.Solicit(enode1), "wrong_vlan"),
		}},
		{"a port that leaves", twoHosts(), []step{
			leaves(1, change(func(c *snooptest.Config) { c.Ports = c.Ports[1:] })),
		}},
		{"another FC-MAP", twoHosts(), []step{
			leaves(0, change(func(c *snooptest.Config) { c.Instances[0].FCMap++ })),
			on("f1", advert(fcf1), "fc_map_mismatch"),
			on("f1", snooptest.Advertise(fcf1, fcMap+1, 8000, false), "e1 e2 e3 t1"),
		}},
		{"an instance that leaves", twoHosts(), []step{
			leaves(0, change(func(c *snooptest.Config) { c.Instances = c.Instances[1:] })),
			on("f1", advert(fcf1), "wrong_vlan"),
		}},
		{"a list of allowed FCFs", twoHosts(), []step{
			leaves(2, change(func(c *snooptest.Config) { c.Instances[0].FCFs = []frame.MAC{fcf1} })),
			on("f2", advert(fcf2), "fcf_not_allowed"), on("f1", advert(fcf1), "e1 e2 e3 t1"),
			on("e2", snooptest.Login(flogi, enode2, fcf2, 1, name2), "unknown_fcf"),
			leaves(0, change(func(c *snooptest.Config) { c.Instances[0].FCFs = []frame.MAC{fcf2} })),
			on("e2", snooptest.Solicit(fcf2), "fcf_address"), // before it is seen
		}},
		{"lower limits end nothing", twoHosts(), []step{
			leaves(2, change(func(c *snooptest.Config) { c.MaxFCFs, c.MaxENodes, c.MaxLinks = 1, 1, 1 })),
			on("e1", snooptest.Login(fdisc, enode1, fcf1, 1, name1), "session_limit"),
			on("f1", advert(fcf1), "e1 e2 e3 t1"),
			on("f1", advert(0xaa00), "fcf_limit"),
		}},
		{"a restart", twoHosts(), []step{
			leaves(2, restart()), data("e1", vn1, fcf1, "f1"), data("f1", fcf1, vn2, "e2"), data("e2", vn1, fcf1, ""),
			leaves(2, up("e1")), on("e1", snooptest.Keep(enode1, fcf1), "f1"), leaves(1, down("e1")),
		}},
	})
}

func TestLimits(t *testing.T) {
	login := func(port string, n int, want string) step {
		return on(port, snooptest.Login(flogi, enode1+frame.MAC(n), fcf1, 1, name1), want)
	}
	accept := func(port string, n int, want string) step {
		return on("f1", snooptest.Accept(flogi, fcf1, enode1+frame.MAC(n), 1, vn1+frame.MAC(n), id1+uint32(n)), want)
	}
	limit := func(f func(c *snooptest.Config)) []step { return append([]step{configure(f)}, known()...) }
	one := limit(func(c *snooptest.Config) { c.MaxENodes, c.MaxLinks = 1, 1 })
	runAll(t, []script{
		{"FCFs", limit(func(c *snooptest.Config) { c.MaxFCFs = 1 }), []step{
			on("f2", advert(fcf2), "fcf_limit"), on("f1", advert(fcf1), "e1 e2 e3 t1"),
			after(21*time.Second, on("f2", advert(fcf2), "e1 e2 e3 t1")),
		}},
		{"ENodes in all", limit(func(c *snooptest.Config) { c.MaxENodes = 1 }), []step{
			login("e1", 0, "f1"), login("e2", 1, "f1"), leaves(1, accept("e1", 0, "e1")),
			login("e3", 2, "enode_limit"),
			leaves(1, accept("e2", 1, "enode_limit")), login("e1", 0, "f1"), leaves(1, accept("e1", 0, "e1")),
		}},
		{"ENodes of a port", limit(func(c *snooptest.Config) { c.Ports[0].MaxENodes = 1 }), []step{
			login("e1", 0, "f1"), leaves(1, accept("e1", 0, "e1")), login("e1", 1, "enode_limit"),
			login("e2", 1, "f1"),
			leaves(2, accept("e2", 1, "e2")),
		}},
		{"sessions in all", limit(func(c *snooptest.Config) { c.MaxLinks = 1 }), []step{
			login("e1", 0, "f1"), login("e2", 1, "f1"), leaves(1, accept("e1", 0, "e1")),
			login("e3", 2, "session_limit"),
			leaves(1, accept("e2", 1, "session_limit")),
			on("e1", snooptest.Login(fdisc, enode1, fcf1, 2, name1), "session_limit"),
			login("e1", 0, "f1"), leaves(1, accept("e1", 0, "e1")), data("e1", vn1, fcf1, "f1"),
		}},
		{"sessions of a port", limit(func(c *snooptest.Config) { c.Ports[0].MaxLinks = 1 }), []step{
			login("e1", 0, "f1"), leaves(1, accept("e1", 0, "e1")), login("e1", 1, "session_limit"),
			login("e2", 1, "f1"),
			leaves(2, accept("e2", 1, "e2")),
		}},
		{"what ends for a new login makes room", one, []step{
			login("e1", 0, "f1"), login("e2", 1, "f1"), leaves(1, accept("e1", 0, "e1")),
			leaves(1, accept("e2", 1, "enode_limit")),
			leaves(1, on("f1", snooptest.Accept(flogi, fcf1, enode1+1, 1, vn1, id1), "e2")),
			data("e2", vn1, fcf1, "f1"), data("e1", vn1, fcf1, ""),
			on("e1", snooptest.Keep(enode1, fcf1), "no_session"),
		}},
		{"logins in flight in all", limit(func(c *snooptest.Config) { c.MaxPending = 1 }), []step{
			login("e1", 0, "f1"), login("e2", 1, "pending_limit"), login("e1", 0, "f1"),
			leaves(1, accept("e1", 0, "e1")),
			login("e2", 1, "f1"), on("e1", snooptest.Logout(enode1, fcf1, 1, vn1, id1), "pending_limit"),
		}},
		{"logins in flight of a port", limit(func(c *snooptest.Config) { c.Ports[0].MaxPending = 1 }), []step{
			login("e1", 0, "f1"), login("e1", 1, "pending_limit"), login("e2", 2, "f1"),
			login("e1", 2, "pending_limit"), login("e2", 0, "f1"), login("e1", 1, "f1"),
		}},
	})
}

func TestServerProvidedAddresses(t *testing.T) {
	ask := func(e, spma frame.MAC) snooptest.Message {
		m := flags(snooptest.FlagFP|snooptest.FlagSP, snooptest.Login(flogi, e, fcf1, 1, name1))
		m.List = [][]byte{snooptest.MAC(spma)}
		return m
	}
	grant := func(e, spma frame.MAC, id uint32) snooptest.Message {
		return flags(snooptest.FlagSP, snooptest.Accept(flogi, fcf1, e, 1, spma, id))
	}
	allowed := append([]step{configure(func(c *snooptest.Config) { c.Instances[0].SPMA = true })}, known()...)
	asked := append(allowed, on("e1", ask(enode1, enode1), "f1"))
	notAsked := append(allowed, on("e1", snooptest.Login(flogi, enode1, fcf1, 1, name1), "f1"))
	runAll(t, []script{
		{"not allowed", append(known(), on("e1", ask(enode1, enode1), "f1")), []step{
			on("f1", grant(enode1, enode1, id1), "not_fpma"),
			leaves(1, on("f1", flags(snooptest.FlagFP, grant(enode1, vn1, id1)), "e1")),
		}},
		{"allowed", asked, []step{
			on("f1", grant(enode1, enode1+7, id1), "spma_conflict"),
			on("f1", grant(enode1, vn1, id1), "spma_conflict"),
			leaves(1, on("f1", grant(enode1, enode1, id1), "e1")), data("e1", enode1, fcf1, "f1"),
			data("f1", fcf1, enode1, "e1"),
			data("e2", enode1, fcf1, ""), on("e2", snooptest.Solicit(enode1), "enode_conflict"),
			leaves(0, configure(func(*snooptest.Config) {})), data("e1", enode1, fcf1, ""),
		}},
		{"allowed, and an FPMA granted", asked, []step{
			leaves(1, on("f1", flags(snooptest.FlagFP, grant(enode1, vn1, id1)), "e1")), data("e1", vn1, fcf1, "f1"),
		}},
		{"allowed, but not asked for", notAsked, []step{
			on("f1", grant(enode1, enode1, id1), "not_fpma"),
			on("f1", flags(0, grant(enode1, enode1, id1)), "not_fpma"),
		}},
		{"another address than the ENode's", append(allowed, on("e1", ask(enode1, enode1+0x1000), "f1")), []step{
			leaves(1, on("f1", grant(enode1, enode1+0x1000, id1), "e1")), data("e1", enode1+0x1000, fcf1, "f1"),
			on("e2", snooptest.Solicit(enode1+0x1000), "enode_conflict"),
			on("e2", ask(enode1+0x1000, 0), "enode_conflict"),
			on("e1", snooptest.KeepVN(enode1, fcf1, enode1+0x1000, id1, name1), "f1"),
			leaves(0, on("f1", snooptest.Clear(fcf1, enode1), "e1")),
			on("e2", snooptest.Solicit(enode1+0x1000), "f1 f2 t1"),
		}},
		{"somebody else's", append(asked, leaves(1, on("f1", grant(enode1, enode1, id1), "e1")),
			on("f2", advert(fcf2), "e1 e2 e3 t1")), []step{
			on("e2", ask(enode2, enode1), "f1"), leaves(1, on("f1", grant(enode2, enode1, id2), "spma_conflict")),
			on("e3", ask(enode2+1, fcf2), "f1"), leaves(1, on("f1", grant(enode2+1, fcf2, id2), "spma_conflict")),
			on("e3", ask(enode2+2, snooptest.AllENodes), "f1"),
			leaves(1, on("f1", grant(enode2+2, snooptest.AllENodes, id2), "spma_conflict")),
			on("e3", ask(enode2+3, vn2), "f1"), leaves(1, on("f1", grant(enode2+3, vn2, id2), "spma_conflict")),
			data("e1", enode1, fcf1, "f1"),
		}},
	})
}

func TestTrustedPorts(t *testing.T) {
	login := snooptest.Login(flogi, enodeT, fcf1, 1, name1)
	runAll(t, []script{
		{"an ENode behind one", known(), []step{
			on("t1", login, "f1"), leaves(1, on("f1", snooptest.Accept(flogi, fcf1, enodeT, 1, vn1, id1), "t1")),
			data("t1", vn1, fcf1, "f1"), data("f1", fcf1, vn1, "t1"), data("e1", vn1, fcf1, ""),
			on("e1", snooptest.Keep(enodeT, fcf1), "enode_conflict"), on("t1", snooptest.Keep(enodeT, fcf1), "f1"),
		}},
		{"an FCF behind one", []step{on("t1", advert(fcfT), "e1 e2 e3")}, []step{
			on("e1", snooptest.Login(flogi, enode1, fcfT, 1, name1), "t1"),
			leaves(1, on("t1", snooptest.Accept(flogi, fcfT, enode1, 1, vn1, id1), "e1")),
			data("e1", vn1, fcfT, "t1"), data("t1", fcfT, vn1, "e1"), data("f1", fcfT, vn1, ""),
			on("f1", advert(fcfT), "fcf_conflict"), leaves(0, on("t1", snooptest.Clear(fcfT, enode1), "e1")),
		}},
		{"both behind one", []step{on("t1", advert(fcfT), "e1 e2 e3")}, []step{
			on("t1", snooptest.Login(flogi, enodeT, fcfT, 1, name1), "no_egress"), data("t1", vn1, fcfT, ""),
		}},
		{"the rules of the others hold there, too", twoHosts(), []step{
			on("t1", snooptest.Login(flogi, enode1, fcf1, 1, name1), "enode_conflict"),
			on("t1", advert(fcf1), "fcf_conflict"),
			on("t1", snooptest.Clear(fcf1, enode1), "fcf_conflict"), data("t1", vn1, fcf1, ""),
			data("t1", fcf1, vn1, ""),
			on("t1", snooptest.Advertise(fcfT, fcMap+1, 8000, false), "fc_map_mismatch"),
		}},
	})
}
