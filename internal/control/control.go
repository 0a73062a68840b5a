// Package control runs a switch. It builds the dataplane from a Config, opens the devices,
// publishes a Plan whenever a link comes or goes, changes over to another Config, and stops without
// losing accepted frames.
package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"sluice/internal/config"
	"sluice/internal/control/memory"
	"sluice/internal/control/params"
	"sluice/internal/dataplane"
	"sluice/internal/dataplane/bridge"
	"sluice/internal/dataplane/tap"
	"sluice/internal/discovery"
	"sluice/internal/fcoe/fsb"
	"sluice/internal/linux/umem"
	"sluice/internal/state"
	"sluice/pmd"
	"sluice/pmd/afxdp"
	"sluice/pmd/transmitter"
)

const (
	// adoptTimeout bounds how long a worker may take to adopt a plan. An iteration takes
	// microseconds.
	adoptTimeout = 5 * time.Second
	// retryInterval is how often a device that is up but could not be opened is tried again. The
	// cause, such as another XDP program, may go away without an event.
	retryInterval = time.Second
	// stallTime is how long the control loop may make no progress before that is reported. The
	// kernel may block it for several times as long while a device is opened or closed; frames are
	// forwarded meanwhile. WatchdogSec in deploy leaves time for that.
	stallTime = 5 * time.Second
)

// Switch is a switch on real devices.
type Switch struct {
	log           *slog.Logger
	version       string // of the program
	memory        *umem.Memory
	transmitter   *transmitter.Transmitter // nil: none
	noTransmitter error                    // why there is none although the configuration wants one
	plane         *dataplane.Switch
	cpus          []int
	ring          int // entries of the rings of each port
	linkSpeed     func(device string) (rate uint64, nominal bool)
	read          memory.Reader

	// Owned by Run's goroutine.
	config     *config.Config
	facts      map[string]config.LinkFacts // of links, by device: what config is fitted to
	reported   map[string]uint64           // last rate that each device reported, bit/s; forgotten when the device goes
	ports      []*port                     // in the order of config
	byName     map[string]*port            // ports by device
	plan       dataplane.Plan              // the next one to publish
	stopping   dataplane.Drain             // drain state of all ports in plan
	events     <-chan afxdp.LinkEvent
	links      map[string]afxdp.LinkEvent // the latest event of each device
	failed     chan error                 // from workers that could not run
	changing   bool                       // a reload is under way
	holdTime   time.Duration              // holdTime; shorter at the end of tests
	unrestored []*afxdp.Settings          // of devices whose settings could not be restored yet
	held       map[int]io.Closer          // closed drivers whose buffers the kernel may still use, by port number
	listening  *time.Ticker               // runs while LLDP is on
	settled    uint64                     // discovery.Serial as of the last look at its agreements
	lookAgain  time.Time                  // when to look again although that is the same
	refused    *tap.Tap                   // of a Capture: frames that the control plane refuses
	chassis    [6]byte                    // the address by which neighbours know the switch; zero: none yet
	snooping   *time.Ticker               // runs while there is FIP snooping
	guarding   *time.Ticker               // of the loop guard
	suspected  bool                       // the last look of the loop guard has found a loop
	snooped    []fsb.Port                 // what snoop last said about the ports

	// Shared.
	began     time.Time         // time 0 of discovery
	discovery *discovery.System // only Run's goroutine changes it
	fsb       *fsb.Bridge       // only Run's goroutine changes it
	running   atomic.Pointer[running]
	ready     atomic.Bool
	orders    chan order // for Run's goroutine
	alarms    alarms
	cleared   atomic.Pointer[Cleared] // nil: counters were never cleared
	final     *State                  // set when Run has ended

	turned    atomic.Pointer[time.Time] // last call of turn; nil: none yet
	ended     chan struct{}             // closed when the workers have ended
	capturing atomic.Bool               // a Capture exists
}

// running is the part of a Switch that Reload changes and other goroutines read. It is immutable.
type running struct {
	config *config.Config
	ports  []*port // only their number and info may be read
}

// port is a device and its state. Its fields belong to Run's goroutine.
type port struct {
	*config.Port
	number     int // in the dataplane; fixed, but a new port may get that of a port that is gone
	settings   *afxdp.Settings
	driver     *afxdp.Port
	index      int             // of its device, when it was last opened
	losses     uint32          // of its carrier, of which the port knows
	wanted     bool            // its device is up, so the port should be open
	leaving    bool            // it is being removed
	shut       bool            // by the operator or, if loop.reopen is set, by the loop guard
	checkedMTU int             // of its device, bytes
	closed     string          // its mode while it is not open: state.Absent, SetDown or Closed
	complaint  string          // why it can't be opened, as last logged; empty once it could
	logged     map[string]bool // by logOnce
	storm      uint8           // bit n: the operator holds priority n in a storm
	reported   int64           // time of the last storm event logged, ns of the worker's clock
	storms     uint64          // storms logged, or logged as missed
	allowance  allowance       // for changes of what it has agreed on
	opened     time.Time
	lost       time.Time // when wanted last became false
	sources    [bridge.Anomalies]loggedSources
	loop       looped
	info       atomic.Pointer[PortInfo] // shared
}

// PortInfo is how a port runs on this machine.
type PortInfo struct {
	Name   string          `json:"name"`
	Mode   string          `json:"mode"` // that of state.Port
	Shut   bool            `json:"shut"` // by the operator or the loop guard
	loop   bool            // Loop of state.Port
	why    string          // DownWhy of state.Port
	mtu    int             // of its device, bytes; 0 while the port is not open
	driver *afxdp.Port     // the latest one, for its counters
	missed error           // why the transmitter that the port should use does not serve it
	kept   *afxdp.Settings // of its device; nil while the port is not open
}

// Sender returns the TX engine of the port (afxdp.TXSocket or afxdp.TXTransmitter), and why that is
// not the transmitter if one was asked for. It returns nothing while the port is not open.
func (p *PortInfo) Sender() (who string, why error) {
	if p.driver == nil || !state.Open(p.Mode) {
		return "", nil
	}
	who, why = p.driver.TX()
	return who, cmp.Or(why, p.missed)
}

// SameDriver reports whether a port still has the same driver, so that its counters continue.
func (p *PortInfo) SameDriver(was *PortInfo) bool { return p.driver == was.driver }

// New makes a switch and maps its memory. It reads the devices, but changes nothing there before
// Run. version is that of the program, which the switch tells its neighbours.
func New(c *config.Config, version string, log *slog.Logger) (*Switch, error) {
	return newSwitch(c, version, log, afxdp.LinkSpeed)
}

// newSwitch is New with a function that returns the rate of a device's link, like afxdp.LinkSpeed.
func newSwitch(file *config.Config, version string, log *slog.Logger,
	linkSpeed func(device string) (rate uint64, nominal bool)) (*Switch, error) {
	s := &Switch{
		log: log, version: version, linkSpeed: linkSpeed,
		read: memory.Read, orders: make(chan order), ended: make(chan struct{}),
		links: make(map[string]afxdp.LinkEvent), held: make(map[int]io.Closer),
		ring: params.RingSize(file), reported: make(map[string]uint64), byName: make(map[string]*port),
		began: time.Now(), listening: time.NewTicker(listenInterval),
		snooping: time.NewTicker(snoopInterval), guarding: time.NewTicker(probeInterval), holdTime: holdTime,
	}
	s.discovery = discovery.New(log, s.inject)
	s.listening.Stop()
	s.snooping.Stop()
	f, err := s.fit(file)
	if err != nil {
		return nil, err
	}
	s.config, s.facts = f.config, f.facts // misfits show when their links come up
	s.announceAll(file)
	c := s.config
	if s.cpus, err = workerCPUs(c); err != nil {
		return nil, err
	}
	for i := range c.Ports {
		p := newPort(&c.Ports[i], i)
		s.ports, s.byName[p.Device] = append(s.ports, p), p
		s.plan.Links = append(s.plan.Links, dataplane.Link{Closed: true})
	}
	s.lookForDevices(c)
	if err := memory.Hidden(s.read); err != nil {
		log.Warn("memory limit of the control group unknown, so not checked", "because", err)
	}
	if err := fits(c, s.read); err != nil {
		return nil, err
	}
	if err := s.mapMemory(); err != nil {
		return nil, err
	}
	if err := s.build(); err != nil {
		return nil, errors.Join(err, s.unmapMemory())
	}
	s.running.Store(&running{c, s.ports})
	return s, s.introduce(file, nil)
}

// newPort makes a port whose device is not open.
func newPort(c *config.Port, number int) *port {
	p := &port{Port: c, number: number, closed: state.Absent}
	p.info.Store(&PortInfo{Name: c.Device, Mode: p.closed, why: lacks(c.Device, p.closed)})
	return p
}

func (s *Switch) build() error {
	p, err := s.paramsOf(s.config)
	if err != nil {
		return err
	}
	if s.plane, err = dataplane.NewSwitch(p); err != nil {
		return err
	}
	s.fsb = fsb.New(s.log, s.plane, s.captureRefusal)
	return nil
}

// paramsOf returns the parameters of a configuration. The watchdogs of a process and of its
// neighbours get different seeds.
func (s *Switch) paramsOf(c *config.Config) (dataplane.Params, error) {
	p, err := params.WithRings(c, s.memory, s.ring)
	for i := range p.Ports {
		p.Ports[i].Watchdog.Seed = rand.Uint64()
	}
	return p, err
}

// Run runs the switch until ctx is done, then drains it and restores the devices. It touches
// devices only on the calling goroutine, which must be locked to its thread if that thread is in
// another network namespace than the process. It returns nil after a clean stop.
func (s *Switch) Run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, s.unmapMemory()) }()
	links, stopWatching := context.WithCancel(context.Background())
	defer stopWatching()
	if s.events, err = afxdp.Watch(links, s.lostLinks); err != nil {
		return err
	}
	if err := afxdp.OnChanges(links, s.keepSettings); err != nil {
		return err
	}
	defer s.startWorkers()()
	defer func() {
		s.reportStorms()
		err = errors.Join(err, s.closeAll(), s.fsb.Close(), s.conclude())
	}()
	s.restoreLeft(s.isPort) // open takes over the settings of the ports' own devices
	if err := s.beginFCoE(); err != nil {
		return err
	}
	for _, p := range s.ports {
		s.turn()
		if ctx.Err() != nil {
			return s.drain()
		}
		if err := s.begin(p); err != nil {
			return err
		}
	}
	s.ready.Store(true)
	s.log.Info("forwarding", "ports", len(s.ports), "workers", s.cpus, "memory", s.memory.Pages())
	retry := time.NewTicker(retryInterval)
	defer retry.Stop()
	for {
		s.turn()
		if ctx.Err() != nil { // before further orders, which may hold ports
			return s.drain()
		}
		select {
		case <-ctx.Done():
		case err := <-s.failed:
			return err
		case e := <-s.events:
			err = s.handle(e)
		case o := <-s.orders:
			err = o.do()
			if o.done <- err; !errors.Is(err, errStuck) {
				err = nil // returned to the caller of order
			}
		case <-s.listening.C:
			err = s.discover()
		case <-s.snooping.C:
			s.snoop()
		case now := <-s.guarding.C:
			err = s.guardLoops(now)
		case <-retry.C:
			s.reportStorms()
			s.reconsiderTX()
			s.restoreAgain()
			err = s.tendPorts()
		}
		if err != nil {
			return err
		}
	}
}

// startWorkers starts each worker on its CPU. The function that it returns stops them.
func (s *Switch) startWorkers() (stop func()) {
	// Workers never sleep, so the runtime needs more threads. These may run on the workers' CPUs:
	// they are rarely needed, but then soon. Every 10 ms the runtime preempts a worker, whose
	// thread sleeps until another thread has passed the turn back to it
	// (docs/notes/worker-threads.md).
	runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), len(s.cpus)+2))
	s.plane.Publish(s.nextPlan())
	s.failed = make(chan error, len(s.plane.Workers))
	done := make(chan struct{})
	for i, w := range s.plane.Workers {
		go func() {
			if err := w.Run(s.cpus[i], s.partnerOn(s.cpus[i])); err != nil {
				s.failed <- err
			}
			done <- struct{}{}
		}()
	}
	return func() {
		for _, w := range s.plane.Workers {
			w.Stop()
		}
		for range s.plane.Workers {
			<-done
		}
		close(s.ended)
	}
}

// nextPlan returns an immutable copy of the plan.
func (s *Switch) nextPlan() *dataplane.Plan {
	plan := s.plan
	plan.Links = slices.Clone(s.plan.Links)
	for i := range plan.Links {
		plan.Links[i].Drain = s.stopping
	}
	for _, p := range s.ports {
		link := &plan.Links[p.number]
		if link.Storm = p.storm; p.leaving {
			link.Drain = max(link.Drain, dataplane.HoldPeers)
		}
	}
	return &plan
}

// errStuck means that a worker does not run. All that can be done is to end the switch.
var errStuck = errors.New("control: a worker does not run")

// publish makes the workers run the plan and returns when all do. It fails with errStuck.
func (s *Switch) publish() error {
	plan := s.nextPlan()
	s.plane.Publish(plan)
	for deadline := time.Now().Add(adoptTimeout); !s.plane.Adopted(plan); time.Sleep(50 * time.Microsecond) {
		s.turn()
		select {
		case err := <-s.failed:
			return fmt.Errorf("%w: %w", errStuck, err)
		default:
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%w: it has not responded for %v: check what else uses its CPU, with sluice doctor",
				errStuck, adoptTimeout)
		}
	}
	return nil
}

// turn records that the control loop makes progress. It is called at least once per retryInterval,
// and before each operation on a device, which may take longer.
func (s *Switch) turn() {
	now := time.Now()
	s.turned.Store(&now)
}

// stalled returns how long the control loop has made no progress, or 0 if less than stallTime.
func (s *Switch) stalled() time.Duration {
	if last := s.turned.Load(); last != nil {
		if still := time.Since(*last); still > stallTime {
			return still
		}
	}
	return 0
}

// SpareCPU returns a CPU that this process may use and no worker has, or -1 if there is none.
func (s *Switch) SpareCPU() int { return spareCPU(s.cpus) }

// Ready reports whether Run has tried to open every device that existed at the start.
func (s *Switch) Ready() bool { return s.ready.Load() }

// Ports returns how the ports run. Any goroutine may call it.
func (s *Switch) Ports() []PortInfo {
	ports := s.running.Load().ports
	infos := make([]PortInfo, len(ports))
	for i, p := range ports {
		infos[i] = *p.info.Load()
	}
	return infos
}

// Config returns the running configuration, which must not be changed. Any goroutine may call it.
func (s *Switch) Config() *config.Config { return s.running.Load().config }

// State is the state of a switch.
type State struct {
	Time    time.Time
	Config  *config.Config // the one that runs
	CPUs    []int          // by worker
	Ports   []PortState    // in the order of Config
	Workers []dataplane.Snapshot
	Cleared *Cleared      // counters when they were last cleared; nil: never
	Stalled time.Duration // how long the control loop, which handles link events and orders, has not run; 0: it runs
	fsb     *fsb.Bridge   // its sessions may be many, so only a report lists them; nil: none
}

// PortState is the state of one port: the counters of its worker, and those of its driver since
// that was opened.
type PortState struct {
	PortInfo
	dataplane.PortSnapshot
	Driver pmd.Stats
	LLDP   *state.LLDP // nil: off
	DCBX   *state.DCBX
	FCoE   *state.PortFCoE
}

// State returns the state of the switch while Run runs. Any goroutine may call it.
func (s *Switch) State() (*State, error) {
	return s.stateOf(s.running.Load())
}

// stateOf returns the state of the ports in now. A port that has left since is all zeros, even if a
// new port has its number.
func (s *Switch) stateOf(now *running) (*State, error) {
	ports := now.ports
	state := &State{Config: now.config, CPUs: s.cpus, Ports: make([]PortState, len(ports)), fsb: s.fsb}
	state.Cleared = s.cleared.Load() // before the workers are asked, so that no counter is below its value in Cleared
	place := make(map[string]int)    // in ports, by name
	for i, p := range ports {
		place[p.info.Load().Name] = i
	}
	for _, w := range s.plane.Workers {
		snapshot, err := w.Snapshot(time.Second)
		if err != nil {
			return nil, err
		}
		state.Workers = append(state.Workers, snapshot)
		for _, p := range snapshot.Ports {
			if i, there := place[p.Name]; there {
				state.Ports[i].PortSnapshot = p
			}
		}
	}
	state.Time, state.Stalled = time.Now(), s.stalled() // last, since a worker may have taken time to answer
	for i := range state.Ports {
		p := &state.Ports[i]
		if p.PortInfo = *ports[i].info.Load(); p.driver != nil {
			p.Driver = p.driver.Stats()
		}
		p.LLDP, p.DCBX = s.discovery.Report(s.now(), p.PortInfo.Name)
		p.FCoE = s.reportFCoE(now.config, &now.config.Ports[i])
	}
	return state, nil
}

// conclude keeps the last state for Final.
func (s *Switch) conclude() (err error) {
	if s.final, err = s.State(); err == nil {
		s.final.Cleared = nil // the final state counts from the start
	}
	return err
}

// Final returns the state in which Run ended, or nil if it failed early.
func (s *Switch) Final() *State { return s.final }

// Storms returns how many pause storms the watchdogs have detected.
func (s *State) Storms() uint64 {
	n := uint64(0)
	for i := range s.Ports {
		for _, storms := range s.Ports[i].Watchdog.Storms {
			n += storms
		}
	}
	return n
}

// LosslessDrops returns how many frames of lossless classes were dropped for lack of room,
// including those at ports that are gone. It must stay 0.
func (s *State) LosslessDrops() uint64 {
	n := uint64(0)
	for i := range s.Workers {
		n += s.Workers[i].Departed
	}
	for i := range s.Ports {
		n += s.Ports[i].LosslessDrops()
	}
	return n
}
