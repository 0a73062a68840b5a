package snooptest_test

import (
	"fmt"
	"testing"
	"time"

	"sluice/bench/testkit/snooptest"
)

// TestTimers: everything lasts to the millisecond as long as it should, and no longer.
func TestTimers(t *testing.T) {
	period := func(ms uint32) snooptest.Message { return snooptest.Advertise(fcf1, fcMap, ms, false) }
	every := func(d time.Duration, n int, more ...step) (all []step) {
		for range n {
			all = append(all, after(d, on("f1", advert(fcf1), "e1 e2 e3 t1")))
			all = append(all, more...)
		}
		return all
	}
	keep, keepVN := on("e1", snooptest.Keep(enode1, fcf1), "f1"),
		on("e1", snooptest.KeepVN(enode1, fcf1, vn1, id1, name1), "f1")
	const ms = time.Millisecond
	fcfIsThere := on("e2", to(fcf1, snooptest.Solicit(enode2)), "f1")
	fcfIsGone := on("e2", to(fcf1, snooptest.Solicit(enode2)), "unknown_fcf")
	runAll(t, []script{
		{"an FCF: 19.9 s and 20.099 s alive, 20.1 s gone", known(), []step{
			after(19900*ms, fcfIsThere), after(199*ms, fcfIsThere), after(ms, fcfIsGone),
		}},
		{"an FCF's links go with it", append(loggedIn(), every(8*time.Second, 2, keep)...), []step{
			leaves(1, wait(20099*ms)), data("e1", vn1, fcf1, "f1"), leaves(0, wait(ms)), data("e1", vn1, fcf1, ""),
			fcfIsGone,
		}},
		{"unicast advertisements keep no FCF alive", append(known(), after(10*time.Second,
			on("f1", to(enode1, advert(fcf1)), "e1 e2 e3 t1"))), []step{
			after(10099*ms, fcfIsThere), after(ms, fcfIsGone),
		}},
		{"an ENode without keep-alives", append(loggedIn(), every(5*time.Second, 3)...), []step{
			leaves(1, wait(5099*ms)), leaves(0, wait(ms)), fcfIsThere,
		}},
		{"an ENode with keep-alives", append(loggedIn(), every(10*time.Second, 6, keep)...), []step{
			leaves(1, after(10*time.Second, on("f1", advert(fcf1), "e1 e2 e3 t1"))),
			leaves(1, wait(10099*ms)), leaves(0, wait(ms)), fcfIsThere,
		}},
		{"keep-alives of a VN_Port are not its ENode's", append(loggedIn(), every(5*time.Second, 3, keepVN)...), []step{
			leaves(1, wait(5099*ms)), leaves(0, wait(ms)),
		}},
		{"a VN_Port without keep-alives", append(loggedIn(), every(9*time.Second, 25, keep)...), []step{
			leaves(1, wait(99*ms)), leaves(0, wait(ms)), keepLost(),
		}},
		{"a VN_Port with keep-alives", append(append(loggedIn(), every(9*time.Second, 10, keep)...),
			append([]step{keepVN}, every(9*time.Second, 25, keep)...)...), []step{
			leaves(1, wait(99*ms)), leaves(0, wait(ms)),
		}},
		{"D: nobody sends keep-alives", append(append([]step{on("f1", snooptest.Advertise(fcf1, fcMap, 8000, true),
			"e1 e2 e3 t1")}, loggedIn()[1:]...), onlyAdverts(200)...), []step{
			leaves(1, wait(20099*ms)), leaves(0, wait(ms)), // but the FCF does advertise itself
		}},
		{"D no more", append(append([]step{on("f1", snooptest.Advertise(fcf1, fcMap, 8000, true),
			"e1 e2 e3 t1")}, loggedIn()[1:]...), append(onlyAdverts(40), every(8*time.Second, 1)...)...), []step{
			leaves(1, after(8*time.Second, on("f1", advert(fcf1), "e1 e2 e3 t1"))), // the ages begin anew
			leaves(1, wait(12099*ms)), leaves(0, wait(ms)),
		}},
		{"another period", append(loggedIn(), after(15*time.Second, on("f1", period(2000), "e1 e2 e3 t1"))), []step{
			leaves(1, wait(5099*ms)), leaves(0, wait(ms)), // the ENode's age began anew, too
		}},
		{"a period of 0 is none", []step{on("f1", period(0), "e1 e2 e3 t1")}, []step{
			after(20099*ms, fcfIsThere), after(ms, fcfIsGone),
		}},
		{"a period of 1 is none", []step{on("f1", period(1), "e1 e2 e3 t1")}, []step{
			after(20099*ms, fcfIsThere), after(ms, fcfIsGone),
		}},
		{"a period of 500 ms", []step{on("f1", period(500), "e1 e2 e3 t1")}, []step{
			after(1349*ms, fcfIsThere), after(ms, fcfIsGone),
		}},
		{"the longest period", []step{on("f1", period(0xffff_ffff), "e1 e2 e3 t1")}, []step{
			after(225099*ms, fcfIsThere), after(ms, fcfIsGone), // 90 s, the most that is meant
		}},
	})
}

// keepLost is the keep-alive of an ENode without a virtual link.
func keepLost() step { return on("e1", snooptest.Keep(enode1, fcf1), "no_session") }

// onlyAdverts are advertisements that ask for no keep-alives.
func onlyAdverts(n int) (all []step) {
	for range n {
		all = append(all, after(8*time.Second, on("f1", snooptest.Advertise(fcf1, fcMap, 8000, true), "e1 e2 e3 t1")))
	}
	return all
}

// TestAgeMultiplier: from 2.5 to 5 periods, and 100 ms.
func TestAgeMultiplier(t *testing.T) {
	for tenths := 25; tenths <= 50; tenths++ {
		lasts := time.Duration(tenths)*800*time.Millisecond + 100*time.Millisecond
		there := to(fcf1, snooptest.Solicit(enode2))
		script{fmt.Sprint(tenths, " tenths"), append([]step{configure(func(c *snooptest.Config) {
			c.Instances[0].AgeTenths = tenths
		})}, known()...), []step{
			after(lasts-1, on("e2", there, "f1")), after(1, on("e2", there, "unknown_fcf")),
		}}.run(t)
	}
}
