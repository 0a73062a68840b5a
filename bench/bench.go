// Package bench measures switches. It defines a scenario (Scenario), measures its subjects
// alternately (Run), searches for the highest rate without loss (Search), and reports medians and
// ratios, all from one run (Report). The packages below hold the scenarios (bench/scenario), the
// test bed of real devices with this switch and its peers (bench/bed), and simulations in virtual
// time (bench/sim).
package bench
