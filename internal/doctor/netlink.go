package doctor

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// attribute returns the value of the attribute of a type.
func attribute(attributes []byte, kind uint16) ([]byte, error) {
	all, err := nl.ParseRouteAttr(attributes)
	if err != nil {
		return nil, err
	}
	for _, a := range all {
		if a.Attr.Type&nl.NLA_TYPE_MASK == kind {
			return a.Value, nil
		}
	}
	return nil, fmt.Errorf("no attribute %d", kind)
}

// DCB is the hardware's own data center bridging (IEEE 802.1Q, as in the kernel's dcbnl).
type DCB struct {
	PFC  uint8 // priorities for which it sends and honours pauses
	Apps []App
}

// App assigns a priority to a protocol. DCBX has negotiated it, or a user has set it.
type App struct {
	Selector, Priority uint8
	Protocol           uint16
}

// The attributes of dcbnl (linux/dcbnl.h).
const (
	dcbIEEEGet      = 21
	dcbIfname       = 1
	dcbIEEE         = 13
	dcbIEEEPFC      = 2
	dcbIEEEAppTable = 3
)

// dcbOf returns the DCB of a device's hardware; nil if it has none or the kernel does not report
// it.
func dcbOf(device string) *DCB {
	request := nl.NewNetlinkRequest(unix.RTM_GETDCB, 0)
	request.AddData(dcbHeader)
	request.AddData(nl.NewRtAttr(dcbIfname, nl.ZeroTerminated(device)))
	messages, err := request.Execute(unix.NETLINK_ROUTE, 0)
	if err != nil || len(messages) == 0 || len(messages[0]) < len(dcbHeader) {
		return nil
	}
	d, err := parseDCB(messages[0][len(dcbHeader):])
	if err != nil {
		return nil
	}
	return d
}

// header precedes the attributes of a request.
type header [4]byte

func (h header) Len() int          { return len(h) }
func (h header) Serialize() []byte { return h[:] }

// dcbHeader is struct dcbmsg of a request for the IEEE 802.1Q attributes.
var dcbHeader = header{unix.AF_UNSPEC, dcbIEEEGet}

// parseDCB parses an answer: the second byte of struct ieee_pfc, which has the enabled priorities,
// and each struct dcb_app.
func parseDCB(attributes []byte) (*DCB, error) {
	ieee, err := attribute(attributes, dcbIEEE)
	if err != nil {
		return nil, err
	}
	d := new(DCB)
	if pfc, err := attribute(ieee, dcbIEEEPFC); err == nil && len(pfc) >= 2 {
		d.PFC = pfc[1]
	}
	table, err := attribute(ieee, dcbIEEEAppTable)
	if err != nil {
		return d, nil
	}
	apps, err := nl.ParseRouteAttr(table)
	for _, a := range apps {
		if v := a.Value; len(v) >= 4 {
			d.Apps = append(d.Apps, App{Selector: v[0], Priority: v[1], Protocol: binary.NativeEndian.Uint16(v[2:])})
		}
	}
	return d, err
}

// String lists the priorities and applications.
func (d *DCB) String() string {
	var parts []string
	for priority := range 8 {
		if d.PFC>>priority&1 == 1 {
			parts = append(parts, fmt.Sprint(priority))
		}
	}
	text := "PFC priorities: none"
	if len(parts) > 0 {
		text = "PFC priorities: " + strings.Join(parts, ", ")
	}
	for _, a := range d.Apps {
		text += fmt.Sprintf("; app %d:%#04x has priority %d", a.Selector, a.Protocol, a.Priority)
	}
	return text
}
