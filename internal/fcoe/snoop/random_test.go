package snoop

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"sluice/internal/fcoe"
	"sluice/internal/frame"
)

// TestRandom sends random frames of few hosts and FCFs from random ports, lets time pass, pulls
// cables, changes roles and restarts. After each step the tables agree, no limit is passed, no
// virtual link is lost, and an ENode port alone has never opened one.
func TestRandom(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		b := newBench(t)
		b.pass(advertisement("f1", fcfA), "e1", "e2", "e3", "t")
		requests := []sent{flogi("e1", hostA, fcfA, 0)}
		for range rapid.IntRange(1, 400).Draw(r, "steps") {
			links := b.Links()
			switch action := rapid.IntRange(0, 19).Draw(r, "action"); action {
			case 0:
				b.run(rapid.Int64Range(0, 30*sec).Draw(r, "time"))
			case 1:
				b.SetLink(b.now, drawPort(r), rapid.Bool().Draw(r, "up"))
			case 2:
				p := params()
				p.Ports[rapid.IntRange(0, 5).Draw(r, "changed")].Role = Role(rapid.IntRange(0, 2).Draw(r, "role"))
				b.configure(p)
			case 3:
				restarted, n, _ := restart(t, b.params, rapid.Int64Range(0, 20*sec).Draw(r, "off"), b.Save(b.now))
				if n > len(links) {
					r.Fatalf("%d links restored of %d", n, len(links))
				}
				b = restarted
			default:
				f := drawFrame(r, &requests)
				b.receive(f)
				if b.port(f.port).Role == ENode {
					for _, l := range b.Links() {
						if !slices.Contains(links, l) {
							r.Fatalf("%s from an ENode port opens %+v", f.Describe(), l)
						}
					}
				}
			}
			b.check()
			if t.Failed() {
				r.FailNow()
			}
		}
	})
}

func drawPort(r *rapid.T) string {
	return rapid.SampledFrom([]string{"e1", "e2", "e3", "f1", "f2", "t"}).Draw(r, "port")
}

// drawFrame draws a frame, and notes it if it is a request.
func drawFrame(r *rapid.T, requests *[]sent) sent {
	port := drawPort(r)
	h := rapid.SampledFrom([]frame.MAC{hostA, hostB, fcfB}).Draw(r, "host")
	f := rapid.SampledFrom([]frame.MAC{fcfA, fcfB}).Draw(r, "fcf")
	id := fcoe.FCID(0x010200 + rapid.IntRange(0, 5).Draw(r, "id"))
	oxid := rapid.Uint16Range(0, 5).Draw(r, "oxid")
	var all sent
	switch rapid.IntRange(0, 9).Draw(r, "kind") {
	case 0:
		all = advertisement(port, f)
		all.Period.NoKeepAlive = rapid.IntRange(0, 9).Draw(r, "D") == 0
	case 1:
		all = flogi(port, h, f, oxid)
	case 2:
		all = fdisc(port, h, f, oxid)
	case 3:
		all = logo(port, h, f, id, oxid)
	case 4, 5, 6:
		request := rapid.SampledFrom(*requests).Draw(r, "request")
		if rapid.IntRange(0, 5).Draw(r, "rejects") == 0 {
			return reject(port, request)
		}
		return accept(port, request, id)
	case 7:
		return keepAlive(port, h, f)
	case 8:
		return keepVN(port, h, f, id)
	default:
		named := []fcoe.VxPort{vx(h, id, oxid)}
		return clearLinks(port, f, h, named[:rapid.IntRange(0, 1).Draw(r, "named")]...)
	}
	if *requests = append(*requests, all); all.Op != fcoe.LoginRequest {
		*requests = (*requests)[:len(*requests)-1]
	}
	return all
}

// TestReportsWhileFramesCome: reports read copies, so frames and changes of configuration may come
// meanwhile. The race detector sees it if they read anything else.
func TestReportsWhileFramesCome(t *testing.T) {
	b := newBench(t)
	b.pass(advertisement("f1", fcfA), "e1", "e2", "e3", "t")
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 200 {
			b.Report(0)
			b.ReportPort(0, "e1")
		}
	}()
	for range 200 {
		request := flogi("e1", hostA, fcfA, 1)
		b.pass(request, "f1")
		b.pass(accept("f1", request, idA), "e1")
		b.receive(keepAlive("e1", hostA, fcfA))
		b.configure(params())
	}
	<-done
	if r := b.Report(0); len(r.Sessions) != 1 || r.Sessions[0].FCFPort != "f1" || r.FCFs[0].Sessions != 1 {
		t.Errorf("%+v", r)
	}
}
