package rig

import (
	"encoding/binary"
	"sync"
	"time"

	"sluice/internal/frame"
)

// pauses honours PFC (IEEE 802.1Q, 36.1) for a host.
type pauses struct {
	rate  uint64 // of the link, in bit/s, in which quanta are counted
	lock  sync.Mutex
	deaf  bool     // ignores what PFC frames say
	state [8]pause // by priority
}

// pause is what a host knows of the pauses of one priority.
type pause struct {
	until     time.Time
	xoff, xon int
}

// time returns how long a pause lasts: a quantum is the time of 512 bits.
func (p *pauses) time(quanta uint16) time.Duration {
	return time.Duration(uint64(quanta) * 512 * 1e9 / p.rate)
}

// take returns whether a frame is a MAC control frame, and does what it says if it is one of PFC.
func (p *pauses) take(b []byte, now time.Time) bool {
	if len(b) < 14 || binary.BigEndian.Uint16(b[12:]) != frame.TypeMACControl {
		return false
	}
	const pfc = 0x0101
	if b = b[14:]; len(b) < 20 || binary.BigEndian.Uint16(b) != pfc {
		return true
	}
	p.lock.Lock()
	defer p.lock.Unlock()
	if p.deaf {
		return true
	}
	for priority := range p.state {
		if b[3]>>priority&1 == 0 {
			continue
		}
		of := &p.state[priority]
		quanta := binary.BigEndian.Uint16(b[4+2*priority:])
		of.until = now.Add(p.time(quanta))
		if quanta == 0 {
			of.xon++
		} else {
			of.xoff++
		}
	}
	return true
}

// ignore makes the host ignore PFC from now on.
func (p *pauses) ignore() {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.deaf = true
}

// until returns when the pause of a priority ends, or has ended.
func (p *pauses) until(priority int) time.Time {
	p.lock.Lock()
	defer p.lock.Unlock()
	return p.state[priority].until
}

// counts returns how often a priority was paused and resumed.
func (p *pauses) counts(priority int) (xoff, xon int) {
	p.lock.Lock()
	defer p.lock.Unlock()
	return p.state[priority].xoff, p.state[priority].xon
}
