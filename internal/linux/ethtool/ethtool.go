// Package ethtool reads and changes settings of network devices like ethtool(8), with the requests
// of linux/ethtool.h (SIOCETHTOOL, netdevice(7)). It replaces two libraries:
// github.com/safchain/ethtool (v0.7.0) stores addresses of stack variables in integers, so the
// kernel may write to a stack that has moved; github.com/mdlayher/ethtool (v0.7.0) lacks features,
// channels, rings, pauses and statistics.
package ethtool

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// request is a command of linux/ethtool.h.
type request struct {
	command uint32
	name    string
}

func (r request) failed(device string, err error) error {
	return fmt.Errorf("%s of %s: %w", r.name, device, err)
}

var (
	getDriver     = request{unix.ETHTOOL_GDRVINFO, "ETHTOOL_GDRVINFO"}
	getLink       = request{unix.ETHTOOL_GLINKSETTINGS, "ETHTOOL_GLINKSETTINGS"}
	getChannels   = request{unix.ETHTOOL_GCHANNELS, "ETHTOOL_GCHANNELS"}
	setChannels   = request{unix.ETHTOOL_SCHANNELS, "ETHTOOL_SCHANNELS"}
	getRings      = request{unix.ETHTOOL_GRINGPARAM, "ETHTOOL_GRINGPARAM"}
	getPause      = request{unix.ETHTOOL_GPAUSEPARAM, "ETHTOOL_GPAUSEPARAM"}
	setPause      = request{unix.ETHTOOL_SPAUSEPARAM, "ETHTOOL_SPAUSEPARAM"}
	countStrings  = request{unix.ETHTOOL_GSSET_INFO, "ETHTOOL_GSSET_INFO"}
	getStrings    = request{unix.ETHTOOL_GSTRINGS, "ETHTOOL_GSTRINGS"}
	getFeatures   = request{unix.ETHTOOL_GFEATURES, "ETHTOOL_GFEATURES"}
	setFeatures   = request{unix.ETHTOOL_SFEATURES, "ETHTOOL_SFEATURES"}
	getStatistics = request{unix.ETHTOOL_GSTATS, "ETHTOOL_GSTATS"}
)

// Driver returns the name of a device's driver.
func (s *Socket) Driver(device string) (string, error) {
	s.one.Lock()
	defer s.one.Unlock()
	if s.memory == nil {
		return "", getDriver.failed(device, os.ErrClosed)
	}
	info, err := unix.IoctlGetEthtoolDrvinfo(s.fd, device)
	if err != nil {
		return "", getDriver.failed(device, err)
	}
	return unix.ByteSliceToString(info.Driver[:]), nil
}

// Speeds that mean that a device does not know the speed of its link, for example without a
// carrier. Drivers that keep it in 16 bits report the second one.
const (
	SpeedUnknown   = math.MaxUint32
	SpeedUnknown16 = math.MaxUint16
)

// Speed returns the speed of a device's link in Mbit/s.
func (s *Socket) Speed(device string) (uint32, error) {
	var link struct { // ethtool_link_settings
		Speed uint32
		_     [7]uint8
		Words int8
		_     [8]uint32
	}
	if err := s.ask(device, getLink, &link); err != nil { // the answer is only the masks' length, negative
		return 0, err
	}
	link.Words = -link.Words
	err := s.ask(device, getLink, &link, make([]uint32, 3*max(link.Words, 0)))
	return link.Speed, err
}

// Channels are the numbers of a device's channels: for receiving, sending, other purposes, and both
// receiving and sending.
type Channels struct {
	MaxRX, MaxTX, MaxOther, MaxCombined uint32
	RX, TX, Other, Combined             uint32
}

// Channels returns the present and maximum numbers of a device's channels.
func (s *Socket) Channels(device string) (c Channels, err error) {
	err = s.ask(device, getChannels, &c)
	return c, err
}

// SetChannels changes the numbers of a device's channels.
func (s *Socket) SetChannels(device string, c Channels) error {
	return s.ask(device, setChannels, &c)
}

// Rings are the numbers of entries of a device's rings.
type Rings struct {
	MaxRX, MaxRXMini, MaxRXJumbo, MaxTX uint32
	RX, RXMini, RXJumbo, TX             uint32
}

// Rings returns the present and maximum numbers of entries of a device's rings.
func (s *Socket) Rings(device string) (r Rings, err error) {
	err = s.ask(device, getRings, &r)
	return r, err
}

// Pause is a device's own handling of PAUSE (IEEE 802.3x).
type Pause struct {
	Negotiated bool // it negotiates the other two with its link partner
	RX         bool // it honours received PAUSE frames and does not pass them on
	TX         bool // it sends PAUSE when its buffers fill up
}

// Pause returns a device's PAUSE settings.
func (s *Socket) Pause(device string) (Pause, error) {
	var p [3]uint32
	err := s.ask(device, getPause, &p)
	return Pause{p[0] != 0, p[1] != 0, p[2] != 0}, err
}

// SetPause changes a device's PAUSE settings.
func (s *Socket) SetPause(device string, p Pause) error {
	number := map[bool]uint32{true: 1}
	return s.ask(device, setPause, &[3]uint32{number[p.Negotiated], number[p.RX], number[p.TX]})
}

// Feature is the state of a feature, such as an offload.
type Feature struct{ Available, Requested, Active, NeverChanged bool }

// Features returns the states of a device's features by name.
func (s *Socket) Features(device string) (map[string]Feature, error) {
	names, err := s.strings(device, featureNames)
	if err != nil {
		return nil, err
	}
	blocks := make([]struct{ Available, Requested, Active, NeverChanged uint32 }, (len(names)+31)/32)
	size := uint32(len(blocks))
	if err := s.ask(device, getFeatures, &size, blocks); err != nil {
		return nil, err
	}
	all := make(map[string]Feature, len(names))
	for i, name := range names {
		b, bit := blocks[i/32], uint32(1)<<(i%32)
		all[name] = Feature{b.Available&bit != 0, b.Requested&bit != 0, b.Active&bit != 0, b.NeverChanged&bit != 0}
	}
	delete(all, "") // unused bits
	return all, nil
}

// SetFeatures turns features on and off. A feature that can't be changed is no error: Features
// returns the result.
func (s *Socket) SetFeatures(device string, on map[string]bool) error {
	names, err := s.strings(device, featureNames)
	if err != nil {
		return err
	}
	blocks := make([]struct{ Valid, Requested uint32 }, (len(names)+31)/32)
	for name, yes := range on {
		i := slices.Index(names, name)
		if i < 0 {
			return setFeatures.failed(device, fmt.Errorf("the kernel has no feature %q", name))
		}
		blocks[i/32].Valid |= 1 << (i % 32)
		if yes {
			blocks[i/32].Requested |= 1 << (i % 32)
		}
	}
	size := uint32(len(blocks))
	return s.ask(device, setFeatures, &size, blocks)
}

// Statistics returns the counters of a device's driver, by the driver's names.
func (s *Socket) Statistics(device string) (map[string]uint64, error) {
	names, err := s.strings(device, statisticNames)
	if err != nil {
		return nil, err
	}
	count, values := uint32(len(names)), make([]uint64, len(names))
	if err := s.ask(device, getStatistics, &count, values); err != nil {
		return nil, err
	}
	if int(count) != len(names) {
		return nil, getStatistics.failed(device, errChanged)
	}
	all := make(map[string]uint64, len(names))
	for i, name := range names {
		all[name] = values[i]
	}
	return all, nil
}

// errChanged means that the number of strings or counters changed between two requests.
var errChanged = errors.New("the number of its queues changed during the request")

// Sets of strings (ethtool_stringset).
const (
	statisticNames = 1
	featureNames   = 4
)

// strings returns a set of strings of a device.
func (s *Socket) strings(device string, set uint32) ([]string, error) {
	var info struct {
		Reserved uint32
		Sets     uint64 // bits
		Count    uint32
	}
	info.Sets = 1 << set
	if err := s.ask(device, countStrings, &info); err != nil {
		return nil, err
	}
	if info.Sets == 0 {
		return nil, countStrings.failed(device, unix.EOPNOTSUPP)
	}
	const size = 32 // ETH_GSTRING_LEN
	header, text := [2]uint32{set, info.Count}, make([]byte, size*info.Count)
	if err := s.ask(device, getStrings, &header, text); err != nil {
		return nil, err
	}
	if header[1] != info.Count {
		return nil, getStrings.failed(device, errChanged)
	}
	all := make([]string, info.Count)
	for i := range all {
		all[i] = unix.ByteSliceToString(text[size*i:][:size])
	}
	return all, nil
}
