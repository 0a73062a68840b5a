package afxdp

import (
	"testing"

	"github.com/safchain/ethtool"
)

// forgetful answers with zeros before it answers.
type forgetful struct{ zeros int }

func (f *forgetful) FeaturesWithState(string) (map[string]ethtool.FeatureState, error) {
	f.zeros--
	return map[string]ethtool.FeatureState{"rx-gro": {Available: f.zeros < 0}}, nil
}

func (f *forgetful) GetChannels(string) (c ethtool.Channels, err error) {
	if f.zeros--; f.zeros < 0 {
		c.MaxRx = 2
	}
	return c, nil
}

func TestAskedAgain(t *testing.T) {
	for zeros := range mostAsked {
		states, err := features(&forgetful{zeros}, "")
		if err != nil || !states["rx-gro"].Available {
			t.Errorf("after %d answers with zeros: %v, %v", zeros, states, err)
		}
		if c, err := channelsOf(&forgetful{zeros}, ""); err != nil || c.MaxRx != 2 {
			t.Errorf("after %d answers with zeros: %v, %v", zeros, c, err)
		}
	}
	if states, err := features(&forgetful{mostAsked}, ""); err != nil || states["rx-gro"].Available {
		t.Errorf("of a device without features: %v, %v", states, err)
	}
}
