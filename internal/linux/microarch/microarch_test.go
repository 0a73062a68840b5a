package microarch

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func TestHasThird(t *testing.T) {
	cpuinfo := func(flags []string) string {
		return "processor\t: 0\nmodel name\t: AMD EPYC\nflags\t\t: fpu sse2 " + strings.Join(flags, " ") +
			"\nbugs\t\t: none\n"
	}
	if !HasThird(cpuinfo(third)) {
		t.Error("all flags are there")
	}
	for i, flag := range third {
		if HasThird(cpuinfo(slices.Delete(slices.Clone(third), i, i+1))) {
			t.Errorf("without %s", flag)
		}
	}
	if HasThird("") || HasThird("processor\t: 0\nFeatures\t: fp asimd\n") {
		t.Error("there are no flags")
	}
}

// TestLevels builds this test for two levels and makes it print its level. The second runs exactly
// if HasThird returns true.
func TestLevels(t *testing.T) {
	if os.Getenv("SAY_LEVEL") != "" {
		t.Log("this is built for", Built())
		return
	}
	if runtime.GOARCH != "amd64" {
		if Built() != runtime.GOARCH {
			t.Error(Built())
		}
		return
	}
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		t.Fatal(err)
	}
	for _, level := range []string{"v1", "v3"} {
		program := filepath.Join(t.TempDir(), level)
		build := exec.Command("go", "test", "-c", "-o", program, ".")
		build.Env = append(os.Environ(), "GOAMD64="+level)
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		run := exec.Command(program, "-test.v", "-test.run", "TestLevels")
		run.Env = append(os.Environ(), "SAY_LEVEL=1")
		out, err := run.CombinedOutput()
		switch starts := err == nil; {
		case starts != (level == "v1" || HasThird(string(text))):
			t.Errorf("%s: %v: %s", level, err, out)
		case starts && !strings.Contains(string(out), "this is built for amd64 "+level):
			t.Errorf("%s: it says %s", level, out)
		}
	}
}
