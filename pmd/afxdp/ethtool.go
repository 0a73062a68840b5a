package afxdp

import "github.com/safchain/ethtool"

// asker asks a device what it has. The library's hands the kernel the address of a variable on the goroutine's stack as a plain number
// (github.com/safchain/ethtool v0.7.0, ioctl): if the garbage collector moves the stack at that moment, the kernel's answer goes where the
// variable was, and the call succeeds with zeros. Kept as a device's original settings, they would be lost. So a device that
// has nothing at all is asked again.
type asker interface {
	FeaturesWithState(device string) (map[string]ethtool.FeatureState, error)
	GetChannels(device string) (ethtool.Channels, error)
}

const mostAsked = 3

// features returns the states of a device's features by name.
func features(tool asker, device string) (states map[string]ethtool.FeatureState, err error) {
	for range mostAsked {
		if states, err = tool.FeaturesWithState(device); err != nil {
			return nil, err
		}
		for _, s := range states {
			if s.Available {
				return states, nil
			}
		}
	}
	return states, nil
}

// channelsOf returns the numbers of a device's queues, and how many it can have.
func channelsOf(tool asker, device string) (c ethtool.Channels, err error) {
	for range mostAsked {
		if c, err = tool.GetChannels(device); err != nil || c.MaxRx+c.MaxTx+c.MaxCombined > 0 {
			return c, err
		}
	}
	return c, nil
}
