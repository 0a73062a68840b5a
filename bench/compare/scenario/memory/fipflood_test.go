package memory

import (
	"log/slog"
	"testing"
	"time"

	"sluice/internal/dataplane"
	"sluice/internal/dataplane/bridge"
	"sluice/internal/dataplane/punt"
	"sluice/internal/doctor/loopgap"
	"sluice/internal/fcoe"
	"sluice/internal/fcoe/fsb"
	"sluice/internal/fcoe/snoop"
	"sluice/internal/frame"
	"sluice/internal/linux/umem"
	"sluice/pmd"
	"sluice/pmd/mem"
)

const (
	fipPorts     = 4
	fipFloodRate = 100_000 // FIP frames a second
	fipFloodPort = 2
	fipFCFPort   = 3
	fipVLAN      = 2094
	fipFCF       = frame.MAC(0x0200_0000_0f01)
)

// BenchmarkGapsUnderFIPFlood measures the gaps of a loop that forwards between two busy ports,
// while a third port receives 100,000 solicitations and FLOGIs a second of 1000 ENodes, and while
// it does not. FIP snooping is on in either case, takes its frames every 2 ms, and forwards what
// may pass to the FCF's port. One operation is a pair of slices of a second, in random order; the
// metrics are those of BenchmarkGapsUnderLLDPStorm. The benchmark fails if a table outgrows its
// limit, a busy port drops a frame, or the FCF is forgotten.
func BenchmarkGapsUnderFIPFlood(b *testing.B) {
	memory, err := umem.Map(loopgap.Buffers, 2048)
	if err != nil {
		b.Fatal(err)
	}
	defer memory.Close()
	x := startFIPFlood(b, memory)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go x.control(stop, stopped)
	compareGaps(b, func(flood bool) float64 { return x.flood.gaps(b, x.s.Workers[0], x.now, flood, x.fcf) }, func() {
		close(stop)
		<-stopped
	})
	x.check(b)
}

// fipFlood is a switch in memory, in real time, with FIP snooping.
type fipFlood struct {
	s     *dataplane.Switch
	fsb   *fsb.Bridge
	began time.Time
	start int64 // ns, time of the switch when began
	flood *frameSource
	fcf   *frameSource
}

func startFIPFlood(b *testing.B, memory *umem.Memory) *fipFlood {
	x := &fipFlood{}
	s, start, err := loopgap.Load{
		Ports: fipPorts, Lengths: []int{60},
		Tune: func(p *dataplane.Params) {
			p.Bridge.FCoE = new(bridge.VLANSet)
			p.Bridge.FCoE.Add(fipVLAN)
		},
		Wrap: func(port int, d *mem.Null) pmd.Port {
			switch port {
			case fipFloodPort:
				x.flood = newFrameSource(memory, d, int64(time.Second)/fipFloodRate)
				x.flood.frames = floodOfFIP()
				return x.flood
			case fipFCFPort:
				x.fcf = newFrameSource(memory, d, int64(time.Second))
				x.fcf.frames = [][]byte{fipFrame(fcoe.AllENode, fipFCF, &fcoe.Packet{Op: fcoe.Advertisement,
					Flags: fcoe.FP | fcoe.Available | fcoe.FromFCF, MAC: fipFCF, Name: 1,
					Fabric: fcoe.Fabric{FCMap: fcoe.DefaultFCMap, Name: 1}, Period: fcoe.Period{Millis: 8000}})}
				return x.fcf
			}
			return d
		},
	}.Start(memory, busyStep)
	if err != nil {
		b.Fatal(err)
	}
	x.s, x.start, x.began = s, start, time.Now()
	x.fcf.due = start
	x.configure(b)
	return x
}

// configure turns on snooping, with the limits that a switch has by default.
func (x *fipFlood) configure(b *testing.B) {
	x.fsb = fsb.New(slog.New(slog.DiscardHandler), x.s, func(*punt.Frame, string) {})
	p := snoop.Params{Instances: []snoop.Instance{{Name: "san", VLAN: fipVLAN}}, MaxFCFs: 32, MaxENodes: 1024,
		MaxLinks: 4096, MaxPending: 4096}
	var ports []fsb.Port
	for i := range fipPorts {
		id := x.s.PortID(i)
		name := x.s.PortName(id)
		role := snoop.ENode
		if i == fipFCFPort {
			role = snoop.FCF
		}
		p.Ports = append(p.Ports, snoop.Port{Name: name, Role: role, Member: func(uint16) bool { return true },
			MaxENodes: 64, MaxLinks: 256, MaxPending: 256})
		ports = append(ports, fsb.Port{Name: name, ID: id, Up: true})
	}
	if err := x.fsb.Configure(x.now(), p); err != nil {
		b.Fatal(err)
	}
	x.fsb.SetPorts(x.now(), ports)
}

// floodOfFIP returns solicitations and FLOGIs in turn.
func floodOfFIP() (frames [][]byte) {
	for i := range 1000 {
		enode := frame.MAC(0x0200_0004_0000 + i)
		frames = append(frames,
			fipFrame(fcoe.AllFCF, enode, &fcoe.Packet{Op: fcoe.Solicitation, Flags: fcoe.FP, MAC: enode, Name: 1,
				MaxSize: fcoe.MaxPayload}),
			fipFrame(fipFCF, enode, &fcoe.Packet{Op: fcoe.LoginRequest, Flags: fcoe.FP, Service: fcoe.DescFLOGI,
				ELS: fcoe.ELS{Command: fcoe.FLOGI, HasParameters: true, Port: fcoe.WWN(1 + i),
					Header: fcoe.Header{D: fcoe.FabricPort, OXID: uint16(i), RXID: fcoe.NoExchange}}}))
	}
	return frames
}

func fipFrame(dst, src frame.MAC, p *fcoe.Packet) []byte {
	b := make([]byte, 18)
	frame.PutHeader(b, dst, src, fipVLAN, 3, true, frame.TypeFIP)
	return fcoe.Pad(p.Append(b), 60)
}

func (x *fipFlood) now() int64 { return x.start + int64(time.Since(x.began)) }

// control is the control plane's part.
func (x *fipFlood) control(stop <-chan struct{}, stopped chan<- struct{}) {
	defer close(stopped)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			x.fsb.Exchange(x.now, x.now())
		case <-stop:
			return
		}
	}
}

// check checks what became of the flood.
func (x *fipFlood) check(b *testing.B) {
	ports := x.s.Workers[0].Look(x.now()).Ports
	for i := range 2 {
		if n := ports[i].Dropped(); n != 0 {
			b.Errorf("port %d: %d frames dropped", i, n)
		}
	}
	r, p := x.fsb.Report(), x.fsb.ReportPort(x.s.PortName(x.s.PortID(fipFloodPort)))
	if len(r.FCFs) != 1 || len(r.Pending) > 256 || len(r.Sessions) > 0 || p.Forwarded == 0 || p.Refused == 0 {
		b.Errorf("%d FCFs, %d pending logins, %d sessions; port %d: %d FIP frames forwarded, %d refused", len(r.FCFs),
			len(r.Pending), len(r.Sessions), fipFloodPort, p.Forwarded, p.Refused)
	}
}
