package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/bench/netns"
	"sluice/bench/testkit/program"
	"sluice/internal/fcoe"
	"sluice/internal/frame"
	"sluice/internal/report/console"
	"sluice/internal/state"
)

const (
	fcoeVLAN = 2094
	fcoeCoS  = 3
	fcfName  = fcoe.WWN(0x2001_00de_c000_0001)
)

// fcoeConfiguration is a switch with an FCF at port1 and hosts at the other ports. VLAN 1 is a LAN.
// Complete it with fcoePorts.
const fcoeConfiguration = `
memory: {buffers: 24576, buffer_size: 4096B}
classes:
  - {cos: [3], name: storage, lossless: true, share: 256KB, xon: 128KB}
  - {cos: [0, 1, 2, 4, 5, 6, 7], name: lan, share: 512KB, queue_limit: 256KB}
ets:
  - name: san
    groups:
      - {pg: 0, cos: [0, 1, 2, 4, 5, 6, 7], weight: 50}
      - {pg: 1, cos: [3], weight: 50}
fcoe:
  max_enodes: 4096
  max_sessions: 8192
  instances:
    - {name: san, vlan: 2094}
ports:
  - {device: port1, speed: %[1]s, ets: san, link: trunk, vlans: [1, 2094], mtu: 2158, fcoe: {role: fcf}}
`

// fcoePorts completes fcoeConfiguration with ports to hosts, up to port n, all of a speed.
func fcoePorts(n int, speed string) string {
	text := fmt.Sprintf(fcoeConfiguration, speed)
	for i := 2; i <= n; i++ {
		text += fmt.Sprintf("  - {device: port%d, speed: %s, ets: san, link: trunk, vlans: [1, 2094], mtu: 2158, "+
			"fcoe: {max_enodes: 2000, max_sessions: 4000}}\n", i, speed)
	}
	return text
}

// fcoeSwitch is a switch with FIP snooping.
type fcoeSwitch struct {
	*program.Running
	socket, text string
}

func startFCoESwitch(t *testing.T, s program.Site, text string) *fcoeSwitch {
	t.Helper()
	x := &fcoeSwitch{socket: program.SocketPath(t)}
	x.text = text + fmt.Sprintf("control: {socket: %s}\n", x.socket)
	x.Running = program.StartSwitch(t, s.Home, x.text)
	return x
}

// newFCoESite returns a site whose devices are long enough for FCoE.
func newFCoESite(t *testing.T, n int) program.Site {
	t.Helper()
	return program.NewSite(t, n, netns.MTU(2200), netns.NoOffloads())
}

func (x *fcoeSwitch) state() state.Switch {
	x.T.Helper()
	r, err := console.Dial(x.socket).State(x.T.Context())
	program.Must(x.T, err)
	return *r
}

func (x *fcoeSwitch) port(name string) state.Port {
	x.T.Helper()
	return program.Report{Switch: x.state()}.Port(x.T, name)
}

// refused returns how many FIP frames of a port were refused, by reason.
func refused(p state.Port) map[string]uint64 {
	all := map[string]uint64{}
	for _, r := range p.FCoE.Refusals {
		all[r.Reason] = r.Frames
	}
	return all
}

// dropped returns how many frames of a port were dropped, by reason, all CoS together.
func dropped(p state.Port) map[string]uint64 {
	all := map[string]uint64{}
	for _, d := range p.Drops {
		all[d.Reason] += d.Frames
	}
	return all
}

// fcFrame is a frame of FIP or FCoE that a host has received.
type fcFrame struct {
	frame.Header
	payload []byte
}

// String describes the frame.
func (f fcFrame) String() string {
	if f.Type != frame.TypeFIP {
		return fmt.Sprintf("%v > %v, type %04x, %d bytes: %x", f.Src, f.Dst, f.Type, len(f.payload),
			f.payload[:min(60, len(f.payload))])
	}
	var p fcoe.Packet
	problem := fcoe.Parse(f.payload, &p)
	return fmt.Sprintf("%v > %v, VLAN %d: %s (%v)", f.Src, f.Dst, f.VID, p.Describe(), problem)
}

// fcHost sends and receives FIP and FCoE with the kernel's packet sockets, so it shares no more
// with the switch than the codecs.
type fcHost struct {
	t       *testing.T
	socket  int
	handle  func(fcFrame) // called with each frame, from a goroutine of its own
	wakeup  *sync.Cond
	frames  []fcFrame // those without a handler, guarded by wakeup.L
	stopped chan struct{}
}

// newFCHost starts a host on the device of a namespace. Without handle, frames wait for await.
func newFCHost(t *testing.T, in *netns.Namespace, handle func(fcFrame)) *fcHost {
	t.Helper()
	sender := newDeafHost(t, in)
	h := &fcHost{t: t, socket: sender.socket, handle: handle, wakeup: sync.NewCond(&sync.Mutex{}),
		stopped: make(chan struct{})}
	if h.handle == nil {
		h.handle = h.keep
	}
	receive := -1
	program.Must(t, in.Do(func() (err error) {
		receive, err = packetSocket(program.HostDevice)
		return err
	}))
	go h.run(receive)
	t.Cleanup(func() {
		close(h.stopped)
		unix.Close(receive)
	})
	return h
}

// packetSocket opens a socket that receives all frames of a device, and their tags beside them.
func packetSocket(device string) (int, error) {
	const all = unix.ETH_P_ALL<<8&0xff00 | unix.ETH_P_ALL>>8
	s, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	i, err := net.InterfaceByName(device)
	if err != nil {
		return -1, err
	}
	return s, errors.Join(
		unix.SetsockoptInt(s, unix.SOL_PACKET, unix.PACKET_AUXDATA, 1),
		unix.SetsockoptInt(s, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
		unix.SetsockoptInt(s, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 32<<20),
		unix.SetsockoptTimeval(s, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 50_000}),
		unix.Bind(s, &unix.SockaddrLinklayer{Protocol: all, Ifindex: i.Index}))
}

// run receives until the test ends.
func (h *fcHost) run(socket int) {
	b, control := make([]byte, 4096), make([]byte, 128)
	for {
		n, oobn, _, _, err := unix.Recvmsg(socket, b, control, 0)
		select {
		case <-h.stopped:
			return
		default:
		}
		if err != nil { // nothing for a while
			continue
		}
		var f fcFrame
		if frame.Parse(b[:n], &f.Header) != frame.OK {
			continue
		}
		if !f.Tagged {
			f.VID, f.PCP, f.Tagged = auxiliary(control[:oobn])
		}
		if f.Type == frame.TypeFIP || f.Type == frame.TypeFCoE {
			f.payload = append([]byte(nil), b[f.Payload:n]...)
			h.handle(f)
		}
	}
}

// auxiliary returns the tag that the kernel has taken off a frame (packet(7), PACKET_AUXDATA).
func auxiliary(control []byte) (vid uint16, pcp uint8, tagged bool) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil || len(messages) == 0 || len(messages[0].Data) < 18 {
		return 0, 0, false
	}
	d := messages[0].Data
	tci := binary.NativeEndian.Uint16(d[16:])
	return tci & 0xfff, uint8(tci >> 13), binary.NativeEndian.Uint32(d)&unix.TP_STATUS_VLAN_VALID != 0
}

func (h *fcHost) keep(f fcFrame) {
	h.wakeup.L.Lock()
	h.frames = append(h.frames, f)
	h.wakeup.L.Unlock()
	h.wakeup.Broadcast()
}

// take returns the frames that have arrived since the last call.
func (h *fcHost) take() (frames []fcFrame) {
	h.wakeup.L.Lock()
	defer h.wakeup.L.Unlock()
	frames, h.frames = h.frames, nil
	return frames
}

// await waits for a frame and takes it, leaving all others.
func (h *fcHost) await(what string, is func(*fcFrame) bool) fcFrame {
	h.t.Helper()
	timeout := time.AfterFunc(program.Patience, h.wakeup.Broadcast)
	defer timeout.Stop()
	h.wakeup.L.Lock()
	defer h.wakeup.L.Unlock()
	for since := time.Now(); ; h.wakeup.Wait() {
		for i := range h.frames {
			if f := h.frames[i]; is(&f) {
				h.frames = append(h.frames[:i], h.frames[i+1:]...)
				return f
			}
		}
		if time.Since(since) >= program.Patience {
			h.t.Fatalf("no %s within %v; other frames: %v", what, program.Patience, h.frames)
		}
	}
}

// write sends one frame, and waits while the queue of the device is full. It may be called from any
// goroutine.
func (h *fcHost) write(f []byte) error {
	_, err := unix.Write(h.socket, f)
	for errors.Is(err, unix.ENOBUFS) || errors.Is(err, unix.EINTR) {
		_, err = unix.Write(h.socket, f)
	}
	return err
}

// fipFrame returns a frame of FIP; VLAN 0 is untagged.
func fipFrame(dst, src frame.MAC, vid uint16, p *fcoe.Packet) []byte {
	b := make([]byte, 18, 2200)
	b = b[:frame.PutHeader(b, dst, src, vid, fcoeCoS, vid > 0, frame.TypeFIP)]
	return fcoe.Pad(p.Append(b), 60)
}

// fcoeFrame returns a frame of FCoE with a Fibre Channel frame of the vendor's type, which nothing
// answers, that many bytes of payload long.
func fcoeFrame(dst, src frame.MAC, vid uint16, s, d fcoe.FCID, number uint32, size int) []byte {
	b := make([]byte, 18, 2200)
	b = b[:frame.PutHeader(b, dst, src, vid, fcoeCoS, true, frame.TypeFCoE)]
	h := fcoe.Header{D: d, S: s, Type: 0xe0, FCtl: fcoe.FCtlRequest, RXID: fcoe.NoExchange, Param: number}
	fc := h.Append(make([]byte, 0, fcoe.MaxFC))
	for len(fc) < fcoe.HeaderLength+size {
		fc = append(fc, byte(number), byte(len(fc)), byte(len(fc)>>8), 0x5a)
	}
	return fcoe.AppendFCoE(b, fcoe.SOFi3, fcoe.EOFt, fc)
}

// vnPort is a VN_Port that is logged in.
type vnPort struct {
	enode, mac frame.MAC
	id         fcoe.FCID
	name       fcoe.WWN
}

// fcFabric is an FCF at a host. Its fields below lock are guarded by it.
type fcFabric struct {
	*fcHost
	mac    frame.MAC
	period time.Duration

	lock      sync.Mutex
	ports     map[fcoe.FCID]vnPort
	next      fcoe.FCID
	got       []fcFrame // FCoE that came from VN_Ports
	damaged   int
	requests  int // of logins
	keepAlive int
	silent    bool // answers nothing, and keeps what it receives
}

// newFCFabric starts an FCF with that FKA_ADV_Period, and advertises it twice as often.
func newFCFabric(t *testing.T, in *netns.Namespace, period time.Duration) *fcFabric {
	t.Helper()
	f := &fcFabric{mac: 0x0200_0000_0f01, period: period, ports: map[fcoe.FCID]vnPort{}, next: 0x010100}
	f.fcHost = newFCHost(t, in, f.receive)
	f.advertise()
	ticker := time.NewTicker(period / 2)
	go func() {
		for {
			select {
			case <-ticker.C:
				f.advertise()
			case <-f.stopped:
				ticker.Stop()
				return
			}
		}
	}()
	return f
}

// advertisement is what the FCF says of itself.
func (f *fcFabric) advertisement() *fcoe.Packet {
	return &fcoe.Packet{Op: fcoe.Advertisement, Flags: fcoe.FP | fcoe.Available | fcoe.FromFCF, MAC: f.mac,
		Priority: fcoe.DefaultPriority, Name: fcfName, Period: fcoe.Period{Millis: uint32(f.period.Milliseconds())},
		Fabric: fcoe.Fabric{FCMap: fcoe.DefaultFCMap, Name: fcfName}}
}

func (f *fcFabric) advertise() {
	_ = f.write(fipFrame(fcoe.AllENode, f.mac, fcoeVLAN, f.advertisement())) // the test may have ended
}

// receive answers what the FCF receives.
func (f *fcFabric) receive(x fcFrame) {
	f.lock.Lock()
	defer f.lock.Unlock()
	if f.silent {
		f.keep(x)
		return
	}
	if x.Type == frame.TypeFCoE {
		f.forward(x)
		return
	}
	var p fcoe.Packet
	if fcoe.Parse(x.payload, &p) != fcoe.OK {
		return
	}
	switch p.Op {
	case fcoe.VLANRequest:
		_ = f.write(fipFrame(x.Src, f.mac, x.VID, &fcoe.Packet{Op: fcoe.VLANNotification, MAC: f.mac,
			VLANs: []uint16{fcoeVLAN}}))
	case fcoe.Solicitation:
		a := f.advertisement()
		a.Flags |= fcoe.Solicited
		b := fcoe.Pad(fipFrame(x.Src, f.mac, fcoeVLAN, a), 18+int(min(p.MaxSize, fcoe.MaxPayload)))
		_ = f.write(b)
	case fcoe.KeepAlive:
		f.keepAlive++
	case fcoe.LoginRequest:
		f.requests++
		_ = f.write(fipFrame(x.Src, f.mac, fcoeVLAN, f.answer(x.Src, &p)))
	}
}

// answer accepts a login or logout.
func (f *fcFabric) answer(enode frame.MAC, p *fcoe.Packet) *fcoe.Packet {
	to := f.next
	if p.Service == fcoe.DescLOGO {
		to = p.ELS.LoggedOut
		delete(f.ports, to)
	} else {
		f.next++
	}
	reply := &fcoe.Packet{Op: fcoe.LoginReply, Flags: fcoe.FP, Service: p.Service,
		MAC: fcoe.FPMA(fcoe.DefaultFCMap, to), ELS: p.ELS.Reply(fcoe.Accept, to)}
	if p.Flags&fcoe.SP != 0 {
		reply.Flags, reply.MAC = fcoe.SP, p.MAC
	}
	if p.Service != fcoe.DescLOGO {
		f.ports[to] = vnPort{enode, reply.MAC, to, p.ELS.Port}
		reply.ELS.Port, reply.ELS.Node = fcfName, fcfName
	}
	return reply
}

// forward sends an FCoE frame on to the VN_Port whose FC_ID it has as destination.
func (f *fcFabric) forward(x fcFrame) {
	var h fcoe.Header
	fc, problem := fcoe.ParseFCoE(x.payload)
	if problem != fcoe.OK || fc.CRC != fcoe.CRC(fc.FC) || fcoe.ParseHeader(fc.FC, &h) != fcoe.OK {
		f.damaged++
		return
	}
	f.got = append(f.got, x)
	if to, ok := f.ports[h.D]; ok {
		b := make([]byte, 18, 2200)
		b = b[:frame.PutHeader(b, to.mac, f.mac, fcoeVLAN, fcoeCoS, true, frame.TypeFCoE)]
		_ = f.write(append(b, x.payload...))
	}
}

// counts returns FCoE frames from VN_Ports, damaged ones, and login requests.
func (f *fcFabric) counts() (got, damaged, requests int) {
	f.lock.Lock()
	defer f.lock.Unlock()
	return len(f.got), f.damaged, f.requests
}

// alive returns how many keep-alives the FCF has received.
func (f *fcFabric) alive() int {
	f.lock.Lock()
	defer f.lock.Unlock()
	return f.keepAlive
}

// fcENode logs in from a host.
type fcENode struct {
	*fcHost
	fcf      frame.MAC
	exchange uint16
}

// login sends FLOGI or FDISC of an ENode, and returns what the FCF granted.
func (e *fcENode) login(command fcoe.Command, enode frame.MAC, port fcoe.WWN) vnPort {
	e.t.Helper()
	return e.request(enode, loginRequest(command, e.exchange+1, port))
}

// request sends a login with the next exchange, and returns what the FCF granted.
func (e *fcENode) request(enode frame.MAC, login *fcoe.Packet) vnPort {
	e.t.Helper()
	e.exchange++
	exchange, command := e.exchange, login.ELS.Command
	program.Must(e.t, e.write(fipFrame(e.fcf, enode, fcoeVLAN, login)))
	var granted fcoe.Packet
	e.await(fmt.Sprintf("accept of %v for %v", command, enode), func(f *fcFrame) bool {
		return f.Type == frame.TypeFIP && f.Dst == enode && fcoe.Parse(f.payload, &granted) == fcoe.OK &&
			granted.Op == fcoe.LoginReply && granted.ELS.Header.OXID == exchange
	})
	if granted.ELS.Command != fcoe.Accept {
		e.t.Fatal(granted.Describe())
	}
	return vnPort{enode, granted.MAC, granted.ELS.Header.D, login.ELS.Port}
}

// loginRequest returns a FLOGI or FDISC.
func loginRequest(command fcoe.Command, exchange uint16, port fcoe.WWN) *fcoe.Packet {
	service := fcoe.DescFLOGI
	if command == fcoe.FDISC {
		service = fcoe.DescFDISC
	}
	return &fcoe.Packet{Op: fcoe.LoginRequest, Flags: fcoe.FP, Service: service,
		ELS: fcoe.ELS{Command: command, HasParameters: true, Port: port, Node: port ^ 0x3000_0000_0000_0000,
			Header:     fcoe.Header{D: fcoe.FabricPort, OXID: exchange, RXID: fcoe.NoExchange},
			Parameters: fcoe.Parameters{Credit: 10, ReceiveSize: 2112, Class3: true}}}
}
