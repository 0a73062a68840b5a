// Package bench measures and simulates: fabrics of switches and hosts in virtual time, the whole path between memory
// ports, and the switch on real devices beside its peers. What it reports are ratios taken in one run.
package bench
