package main

import (
	"testing"

	"sluice/bench/testkit/program"
)

func TestMain(m *testing.M) { program.Main(m, "sluice", main) }
