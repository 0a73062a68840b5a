// Package compare measures switches. It defines a scenario (Scenario), measures its subjects
// alternately (Run), searches for the highest rate without loss (Search), and reports medians and
// ratios, all from one run (Report). The packages below hold the scenarios
// (bench/compare/scenario), the test bed of real devices with this switch and its peers
// (bench/compare/bed), and simulations in virtual time (bench/sim).
package compare
