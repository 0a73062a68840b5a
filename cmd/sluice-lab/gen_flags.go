package main

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"

	"sluice/bench/traffic"
	"sluice/internal/cli"
	"sluice/internal/frame"
	"sluice/internal/text/units"
	"sluice/pfc"
)

// load is a flag for the rate to send at: in bit/s, packets/s or percent of the line.
type load struct {
	text    string
	number  cli.Quantity
	packets bool // number is packets/s
	percent bool // number is percent of the line; if neither is set, bit/s
}

// Set implements pflag.Value.
func (l *load) Set(text string) error {
	number, percent := strings.CutSuffix(text, "%")
	number, packets := strings.CutSuffix(number, "pps")
	var q cli.Quantity
	if err := q.Parse(number, "", append(units.Rates, units.Unit{Suffix: "k", Factor: 1e3})); err != nil ||
		q.Value == 0 || percent && (packets || q.Value > 100) {
		return errors.New("write bit/s such as 5G, packets/s such as 1Mpps, or a share of the line such as 50%")
	}
	*l = load{text: text, number: q, packets: packets, percent: percent}
	return nil
}

// String implements pflag.Value.
func (l *load) String() string { return l.text }

// Type implements pflag.Value.
func (l *load) Type() string { return "load" }

// bits returns the load in bit/s on the wire, including overhead, for frames that cycle through
// sizes (without FCS). A load above the speed of the line is an error.
func (l *load) bits(sizes []int, line uint64) (uint64, error) {
	bits := l.number.Value
	switch {
	case l.percent:
		bits *= float64(line) / 100
	case l.packets:
		sum := 0
		for _, bytes := range sizes {
			sum += bytes + frame.WireOverhead
		}
		bits *= 8 * float64(sum) / float64(len(sizes))
	}
	if bits > float64(line) {
		return 0, fmt.Errorf("--rate %s is %.4g Gbit/s on a line of %.4g: raise --speed, or lower --rate", l,
			bits/1e9, float64(line)/1e9)
	}
	return max(uint64(bits), 1), nil
}

// sizes is a flag for the frame sizes to cycle through, in bytes with FCS as in testpmd and RFC
// 2544.
type sizes struct {
	text  string
	bytes []int // without FCS
}

// imix is IMIX_v4_1, the Internet mix of FD.io CSIT: of 12 frames 7 have 64, 4 have 570 and 1 has
// 1518 bytes. They are evenly mixed.
//
// imixJumbo adds a frame of 4218 bytes to each round, of RDMA with a path MTU of 4096 on an MTU of
// 4200, and one of 9018, of an MTU of 9000.
const (
	imix      = "64,570,64,64,570,64,1518,64,570,64,64,570"
	imixJumbo = "64,570,64,64,570,4218,64,1518,64,570,64,9018,64,570"
)

// Set implements pflag.Value.
func (s *sizes) Set(text string) error {
	list := text
	switch text {
	case "imix":
		list = imix
	case "imix-jumbo":
		list = imixJumbo
	}
	*s = sizes{text: text}
	for field := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(field)
		if err != nil || n < traffic.MinSize+frame.FCS || n > traffic.MaxSize+frame.FCS {
			return fmt.Errorf("%q: write sizes of %d to %d bytes, with FCS, such as 64,512,1518, imix or imix-jumbo",
				field, traffic.MinSize+frame.FCS, traffic.MaxSize+frame.FCS)
		}
		s.bytes = append(s.bytes, n-frame.FCS)
	}
	return nil
}

// String implements pflag.Value.
func (s *sizes) String() string { return s.text }

// Type implements pflag.Value.
func (s *sizes) Type() string { return "sizes" }

// mix is a flag for the share of frames of each priority.
type mix struct {
	text       string
	priorities []uint8
	percent    []float64 // by index in priorities
}

// Set implements pflag.Value.
func (m *mix) Set(text string) error {
	*m = mix{text: text}
	sum, seen := 0.0, uint8(0)
	err := forPriorities(text, func(priority uint8, value string) error {
		percent, err := strconv.ParseFloat(strings.TrimSuffix(value, "%"), 64)
		if err != nil || !(percent > 0) || percent > 100 {
			return fmt.Errorf("%q: write a share of more than 0 %%, up to 100 %%", value)
		}
		if seen&(1<<priority) != 0 {
			return fmt.Errorf("priority %d is given twice", priority)
		}
		seen |= 1 << priority
		sum += percent
		m.priorities, m.percent = append(m.priorities, priority), append(m.percent, percent)
		return nil
	})
	if err == nil && math.Abs(sum-100) > 1e-6 {
		err = fmt.Errorf("the shares add up to %g %%, not to 100", sum)
	}
	if err != nil {
		return fmt.Errorf("%w: write a mix such as 3:50,0:30,5:20", err)
	}
	return nil
}

// divide splits n between the priorities by their shares, rounded so that the parts add up to n.
func (m *mix) divide(n uint64) []uint64 {
	parts := make([]uint64, len(m.percent))
	sum, before := 0.0, uint64(0)
	for k, percent := range m.percent {
		sum += percent
		upTo := min(uint64(math.Round(float64(n)*sum/100)), n)
		if k == len(parts)-1 {
			upTo = n
		}
		parts[k], before = upTo-before, upTo
	}
	return parts
}

// String implements pflag.Value.
func (m *mix) String() string { return m.text }

// Type implements pflag.Value.
func (m *mix) Type() string { return "mix" }

// injection is a flag for the PFC frame to inject.
type injection struct {
	text  string
	frame pfc.Frame
}

// Set implements pflag.Value.
func (i *injection) Set(text string) error {
	*i = injection{text: text}
	err := forPriorities(text, func(priority uint8, value string) error {
		quanta, err := strconv.ParseUint(value, 10, 16)
		if err != nil {
			return fmt.Errorf("%q: write 0 to 65535 quanta of 512 bit times, 0 is XON", value)
		}
		i.frame.Enable |= 1 << priority
		i.frame.Quanta[priority] = uint16(quanta)
		return nil
	})
	if err != nil {
		return fmt.Errorf("%w: write priorities and quanta such as 3:65535,4:100", err)
	}
	return nil
}

// String implements pflag.Value.
func (i *injection) String() string { return i.text }

// Type implements pflag.Value.
func (i *injection) Type() string { return "quanta" }

// forPriorities calls f for each element of a list such as 3:50,0:30.
func forPriorities(list string, f func(priority uint8, value string) error) error {
	for field := range strings.SplitSeq(list, ",") {
		name, value, found := strings.Cut(field, ":")
		priority, err := strconv.ParseUint(name, 10, 8)
		if !found || err != nil || priority > 7 {
			return fmt.Errorf("%q: write a priority, 0 to 7, and a value", field)
		}
		if err := f(uint8(priority), value); err != nil {
			return err
		}
	}
	return nil
}

// datagrams returns the UDP addresses of test frames for testpmd's flags --tx-ip SRC,DST and
// --tx-udp SRC[,DST].
func datagrams(ip, udp string) (*traffic.UDP, error) {
	fail := fmt.Errorf("--tx-ip %s --tx-udp %s: write two IPv4 addresses such as 198.18.0.1,198.18.0.2 and one or "+
		"two ports such as 1000,1001", ip, udp)
	source, destination, _ := strings.Cut(ip, ",")
	from, err1 := netip.ParseAddr(source)
	to, err2 := netip.ParseAddr(destination)
	source, destination, found := strings.Cut(udp, ",")
	if !found {
		destination = source
	}
	fromPort, err3 := strconv.ParseUint(source, 10, 16)
	toPort, err4 := strconv.ParseUint(destination, 10, 16)
	if errors.Join(err1, err2, err3, err4) != nil || !from.Is4() || !to.Is4() {
		return nil, fail
	}
	return &traffic.UDP{Src: netip.AddrPortFrom(from, uint16(fromPort)), Dst: netip.AddrPortFrom(to, uint16(toPort))},
		nil
}
