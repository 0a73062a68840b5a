package config

import (
	"net"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"sluice/internal/config/scalar"
	"sluice/internal/config/schema"
)

// single reads a single value.
func single[V any](s scalar.Syntax[V]) codec[V] {
	return codec[V]{schema: s.Schema.Remedied(s.Remedy), read: func(d *decoder, n *yaml.Node, label string, v *V) bool {
		if n.Kind != yaml.ScalarNode {
			return d.refuse(n, label+" is not a single value", s.Remedy)
		}
		value, problem := s.Parse(n.Value)
		if problem != "" {
			return d.refuse(n, label+" "+quote(n.Value)+" "+problem, s.Remedy)
		}
		*v = value
		return true
	}, plain: func(v *V) any { return s.Plain(*v) }}
}

// The codecs of most keys.
func size(lowest, highest string) codec[int]         { return single(scalar.Size(lowest, highest)) }
func rate(lowest, highest string) codec[uint64]      { return single(scalar.Rate(lowest, highest)) }
func percent(lowest, highest string) codec[int]      { return single(scalar.Percent(lowest, highest)) }
func decimal(lowest, highest float64) codec[float64] { return single(scalar.Decimal(lowest, highest)) }
func alpha() codec[int]                              { return single(scalar.Alpha()) }
func boolean() codec[bool]                           { return single(scalar.Boolean()) }
func choice[V ~string](words ...V) codec[V]          { return single(scalar.Choice(words...)) }
func name(longest int, what string) codec[string]    { return single(scalar.Name(longest, what)) }
func device() codec[string]                          { return single(scalar.Device()) }

func duration(lowest, highest string) codec[time.Duration] {
	return single(scalar.Duration(lowest, highest))
}

func integer[V int | uint8 | uint16](lowest, highest V) codec[V] {
	return single(scalar.Integer(lowest, highest))
}

// orNone reads what a codec reads, or the word none as zero.
func orNone[V comparable](c codec[V]) codec[V] {
	var zero V
	return orWord("none", zero, c)
}

// orWord reads what a codec reads, or a word as a given value.
func orWord[V comparable](text string, value V, c codec[V]) codec[V] {
	return codec[V]{schema: schema.Either(c.schema, schema.Word(text)), spoil: c.spoil,
		read: func(d *decoder, n *yaml.Node, label string, v *V) bool {
			if n.Kind == yaml.ScalarNode && n.Value == text {
				*v = value
				return true
			}
			return c.read(d, n, label, v)
		}, plain: func(v *V) any {
			if *v == value {
				return text
			}
			return c.plain(v)
		}}
}

// unicast reads a unicast MAC address.
func unicast() codec[MAC] { return single(unicastSyntax()) }

func unicastSyntax() scalar.Syntax[MAC] {
	s := &schema.Schema{
		Type: "string",
		Pattern: `^[0-9A-Fa-f][02468ACEace]` +
			`((:[0-9A-Fa-f]{2}){5}|(-[0-9A-Fa-f]{2}){5}|[0-9A-Fa-f]{2}(\.[0-9A-Fa-f]{4}){2})$`,
		Form: "a unicast MAC address",
	}
	parse := func(text string) (MAC, string) {
		address, err := net.ParseMAC(text)
		switch {
		case err != nil || len(address) != len(MAC{}):
			return MAC{}, "is not a MAC address"
		case address[0]&1 == 1:
			return MAC{}, "is a group address"
		case MAC(address) == MAC{}:
			return MAC{}, "is the all-zero address"
		}
		return MAC(address), ""
	}
	const remedy = "write a unicast address, such as 02:00:00:00:00:01"
	return scalar.Syntax[MAC]{Schema: s, Remedy: remedy, Parse: parse}
}

// enode reads the name of an ENode. The first digit of a WWPN is its format (NAA), never 0.
func enode() codec[ENode] {
	mac := unicastSyntax()
	s := schema.Either(mac.Schema, &schema.Schema{
		Type: "string",
		Pattern: `^[1-9A-Fa-f][0-9A-Fa-f]` +
			`((:[0-9A-Fa-f]{2}){7}|(-[0-9A-Fa-f]{2}){7}|[0-9A-Fa-f]{2}(\.[0-9A-Fa-f]{4}){3})$`,
		Form: "a WWPN",
	})
	parse := func(text string) (e ENode, problem string) {
		switch name, err := net.ParseMAC(text); {
		case err == nil && len(name) == len(e.MAC):
			e.MAC, problem = mac.Parse(text)
		case err == nil && len(name) == len(e.WWPN) && name[0] >= 0x10:
			copy(e.WWPN[:], name)
		default:
			problem = "is neither a MAC address nor a WWPN"
		}
		return e, problem
	}
	const remedy = "write a MAC address, such as 02:00:00:00:00:01, or a WWPN, such as 20:00:02:00:00:00:00:01"
	return single(scalar.Syntax[ENode]{Schema: s, Remedy: remedy, Parse: parse})
}

// vlanRange reads one VLAN, a range of them, or all.
func vlanRange() codec[VLANRange] {
	vlan := &schema.Schema{Type: "integer", Minimum: new(1.0), Maximum: new(4094.0)}
	s := schema.Either(vlan, &schema.Schema{Type: "string", Pattern: `^(all|[1-9][0-9]{0,3}-[1-9][0-9]{0,3})$`})
	s.Form = "a VLAN from 1 to 4094, a range such as 200-299, or all"
	parse := func(text string) (VLANRange, string) {
		if text == "all" {
			return VLANRange{1, 4094}, ""
		}
		from, to, isRange := strings.Cut(text, "-")
		if !isRange {
			to = from
		}
		first, problem1 := scalar.Digits(from)
		last, problem2 := scalar.Digits(to)
		switch {
		case problem1+problem2 != "":
			return VLANRange{}, "is neither a VLAN nor a range"
		case first < 1 || last > 4094:
			return VLANRange{}, "is out of range"
		case first > last:
			return VLANRange{}, "ends before it starts"
		}
		return VLANRange{uint16(first), uint16(last)}, ""
	}
	const remedy = "write 100, 200-299 or all; VLANs are 1 to 4094"
	return single(scalar.Syntax[VLANRange]{Schema: s, Remedy: remedy, Parse: parse})
}
