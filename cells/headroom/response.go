package headroom

import "strconv"

// response is how long a port may still begin frames after a pause has arrived, in quanta of 512
// bit times: IEEE 802.3 clause 31B.3.7 as SONiC lists it (sonic-swss,
// cfgmgr/buffer_headroom_mellanox.lua).
type response struct {
	speed  uint64 // bit/s
	quanta int
}

// quantum is the unit of pause times, 512 bit times, in bytes.
const quantum = 512 / 8

var responses = []response{
	{1e9, 2}, {10e9, 67}, {25e9, 80}, {40e9, 118}, {50e9, 147}, {100e9, 394}, {200e9, 453}, {400e9, 905},
}

// responseBytes returns for how many byte times a peer in hardware may still begin frames. Up to
// 10G these are the 60 quanta that PFC allows (802.1Qbb, as cited by Cisco 2009), above 10G the
// response of the next speed in the list.
func responseBytes(speed uint64) int {
	if speed <= tenGigabit {
		return sixtyQuanta
	}
	for _, r := range responses {
		if r.speed >= speed {
			return r.quanta * quantum
		}
	}
	panic("headroom: speed above the last response was not rejected")
}

// rateText formats a speed like 2.5G.
func rateText(speed uint64) string {
	return strconv.FormatFloat(float64(speed)/1e9, 'f', -1, 64) + "G"
}

// ResponseBits returns for how many bit times after the arrival of a pause the standard lets a port
// begin frames, at a speed in bit/s, up to 400G. It is what Params.ResponseBits = 0 stands for.
func ResponseBits(speed uint64) int { return 8 * responseBytes(speed) }
