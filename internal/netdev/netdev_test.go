package netdev

import (
	"net"
	"testing"
)

func TestX(t *testing.T) {
	all, _ := net.Interfaces()
	for _, i := range all {
		for range 3 {
			takes, err := TakesRedirects(i.Index)
			t.Log(i.Name, i.Index, takes, err)
		}
	}
}
