// Package bench is how things are measured here: what a scenario is (Scenario), how its subjects
// take turns (Run), the search for the highest rate without loss (Search), and the report with its
// ratios, all taken in one run (Report). What is measured stands in the packages below:
// bench/scenario has the scenarios; bench/bed the test bed of real devices, with this switch and
// its peers; bench/sim simulations in virtual time.
package bench
