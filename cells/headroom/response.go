package headroom

import "strconv"

// response is how long a port may go on beginning frames once a pause has arrived, in quanta of 512
// bit times, as SONiC (sonic-swss, cfgmgr/buffer_headroom_mellanox.lua) lists IEEE 802.3 clause
// 31B.3.7.
type response struct {
	speed  uint64 // bit/s
	quanta int
}

// quantum is the unit of pause times, 512 bit times, in bytes.
const quantum = 512 / 8

var responses = []response{
	{1e9, 2}, {10e9, 67}, {25e9, 80}, {40e9, 118}, {50e9, 147}, {100e9, 394}, {200e9, 453}, {400e9, 905},
}

// responseBytes returns how many byte times a peer in hardware may go on at a speed: up to 10G the
// 60 quanta that PFC allows (802.1Qbb, as Cisco 2009 cites it), above what is allowed at the next
// speed that has a figure.
func responseBytes(speed uint64) int {
	if speed <= tenGigabit {
		return sixtyQuanta
	}
	for _, r := range responses {
		if r.speed >= speed {
			return r.quanta * quantum
		}
	}
	panic("headroom: a speed beyond the last response was not refused")
}

// rateText writes a speed as people do.
func rateText(speed uint64) string {
	return strconv.FormatFloat(float64(speed)/1e9, 'f', -1, 64) + "G"
}

// ResponseBits returns the bit times after the arrival of a pause in which the standard lets a port
// at that speed, in bit/s up to 400G, begin frames: what Params.ResponseBits of 0 stands for.
func ResponseBits(speed uint64) int { return 8 * responseBytes(speed) }
