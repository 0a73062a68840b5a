package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sluice/bench/program"
	"sluice/internal/cli"
)

// limitedGroup makes a control group of either version that may have so much memory, in bytes, and returns its directory.
func limitedGroup(t *testing.T, bytes string) string {
	t.Helper()
	program.NeedRoot(t)
	for root, limit := range map[string]string{"/sys/fs/cgroup/memory": "memory.limit_in_bytes", "/sys/fs/cgroup": "memory.max"} {
		if _, err := os.Stat(filepath.Join(root, "cgroup.procs")); err != nil {
			continue
		}
		group, err := os.MkdirTemp(root, "sluice-test-")
		if err != nil {
			continue
		}
		t.Cleanup(func() {
			if err := os.Remove(group); err != nil {
				t.Error(err)
			}
		})
		if os.WriteFile(filepath.Join(group, limit), []byte(bytes), 0o600) == nil {
			return group
		}
	}
	t.Skip("needs a memory controller that may be used")
	return ""
}

// TestLimitedMemory: in a control group that is too small a switch does not start, and says why; check says it, too; and with
// the buffers that it recommends the switch starts and works there.
func TestLimitedMemory(t *testing.T) {
	group := limitedGroup(t, "268435456")
	s := program.NewSite(t, 2)
	inGroup := func(args ...string) *program.Running {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		c := exec.Command("sh", append([]string{"-c", `echo $$ > "$0"/cgroup.procs && exec "$@"`, group, self}, args...)...)
		c.Env = append(os.Environ(), program.AsProgram+"=1")
		return program.LaunchCommand(t, s.Home, c)
	}
	text := strings.Replace(smallSwitch, "buffers: 1024", "buffers: 4194304", 1) // 8 GiB
	file := readable(t, text)
	say := []string{"memory.buffers is 4194304", file + ":3:19", "the switch takes 8.", "control group /sluice-test-", "left of 256 MiB", "lower memory.buffers to "}
	run := inGroup("run", "-c", file)
	checkRefusal(t, run, cli.ExitFailure, say)
	check := inGroup("check", "-c", file)
	if code := check.ExitCode(); code != 0 || !strings.Contains(check.Output.String(), "note: a switch would not start here: the switch takes 8.") {
		t.Errorf("exit code %d:\n%s", code, check.Output.String())
	}
	_, rest, _ := strings.Cut(strings.Join(run.Log.All(), "\n"), "lower memory.buffers to ")
	most, _, _ := strings.Cut(rest, " ")
	mended := readable(t, strings.Replace(smallSwitch, "buffers: 1024", "buffers: "+most, 1))
	p := inGroup("run", "-c", mended, "--json")
	p.Await(2, `msg="link changed"`, "up=true")
	taken, err := os.ReadFile(filepath.Join(group, "memory.usage_in_bytes"))
	if errors.Is(err, os.ErrNotExist) {
		taken, err = os.ReadFile(filepath.Join(group, "memory.current"))
	}
	t.Logf("%s buffers; %s of 268435456 bytes taken, %v", most, strings.TrimSpace(string(taken)), err)
	p.Stop()
}
