package program

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestProgramEnds: a program ends with the tests' process, even if that is killed.
func TestProgramEnds(t *testing.T) {
	const variable = "SLUICE_PROGRAM_TEST_FILE"
	if file := os.Getenv(variable); file != "" {
		const script = `echo $$ >"$1.new"; mv "$1.new" "$1"; exec sleep 60`
		p := LaunchCommand(t, nil, exec.Command("sh", "-c", script, "sh", file))
		t.Fatal("the program has ended: ", p.ExitCode())
	}
	file := filepath.Join(t.TempDir(), "pid")
	c := exec.Command("/proc/self/exe", "-test.run", "^TestProgramEnds$")
	c.Env = append(os.Environ(), variable+"="+file)
	Must(t, c.Start())
	Until(t, "the program runs", func() bool { _, err := os.Stat(file); return err == nil })
	pid, err := os.ReadFile(file)
	Must(t, err)
	Must(t, c.Process.Signal(unix.SIGKILL))
	_ = c.Wait()
	Until(t, "the program's end", func() bool { // nobody may have waited for it yet
		stat, err := os.ReadFile(filepath.Join("/proc", strings.TrimSpace(string(pid)), "stat"))
		return err != nil || strings.Contains(string(stat), ") Z ")
	})
}
