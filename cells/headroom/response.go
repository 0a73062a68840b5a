package headroom

import "strconv"

// response is how long a port may go on beginning frames once a pause has arrived, in quanta of 512 bit times, as SONiC
// (sonic-swss, cfgmgr/buffer_headroom_mellanox.lua) lists IEEE 802.3 clause 31B.3.7.
type response struct {
	speed  uint64 // bit/s
	quanta int
}

var responses = []response{
	{1e9, 2}, {10e9, 67}, {25e9, 80}, {40e9, 118}, {50e9, 147}, {100e9, 394}, {200e9, 453}, {400e9, 905},
}

// responseBits returns how many bit times the peer may go on. Where Params don't say: up to 10G the 60 quanta that PFC
// allows (802.1Qbb, as Cisco 2009 cites it), above what is allowed at the next speed that has a figure.
func (p *Params) responseBits() int {
	if p.ResponseBits > 0 {
		return p.ResponseBits
	}
	if p.Speed <= tenGigabit {
		return 8 * sixtyQuanta
	}
	quanta := 0
	for _, r := range responses {
		if quanta = r.quanta; r.speed >= p.Speed {
			break
		}
	}
	return quanta * 512
}

// rateText writes a speed as people do.
func rateText(speed uint64) string {
	return strconv.FormatFloat(float64(speed)/1e9, 'f', -1, 64) + "G"
}
