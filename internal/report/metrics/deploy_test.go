package metrics

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"sluice/internal/state"
)

// The files of deploy/ are checked by the programs that use them, and against the metrics that a
// switch really has.

const deploy = "../../../deploy/"

var metricName = regexp.MustCompile(`\b(?:sluice|process|go)_[a-z0-9_]+\b`)

// shown returns the labels of all series that a switch can have, by name.
func shown(t *testing.T) map[string][]string {
	t.Helper()
	f := newFake(t, 2)
	f.makeBusy(true)
	scraped := scrape(t, serve(t, f, nil))
	names := make(map[string][]string)
	for _, line := range series(scraped, "") {
		if !strings.HasPrefix(line, "#") {
			name := line[:strings.IndexAny(line, "{ ")]
			names[name] = append([]string{"job", "instance"}, labelsOf(scraped, name)...)
		}
	}
	return names
}

// alertRules returns the alerts by name.
func alertRules(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(deploy + "alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	rules := make(map[string]string)
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			rules[r.Alert] = r.Expr
			if r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
				t.Errorf("%s does not say what it is about, or what to do", r.Alert)
			}
			for _, name := range metricName.FindAllString(r.Annotations["description"], -1) {
				rules[r.Alert] += " " + name // it has to exist too
			}
		}
	}
	return rules
}

// panel is a panel of a Grafana dashboard.
type panel struct {
	Title      string
	Type       string
	Datasource struct{ UID string }
	GridPos    struct{ X, Y, W, H int }
	Targets    []struct{ Expr string }
}

func dashboard(t *testing.T) (panels []panel, variables []string) {
	t.Helper()
	text, err := os.ReadFile(deploy + "grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Title      string
		Panels     []panel
		Templating struct {
			List []struct{ Name, Definition string }
		}
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	for _, v := range file.Templating.List {
		variables = append(variables, v.Definition)
	}
	if file.Title != "Sluice" || len(file.Panels) < 20 || len(variables) != 4 {
		t.Fatalf("dashboard %q with %d panels and %d variables", file.Title, len(file.Panels), len(variables))
	}
	return file.Panels, variables
}

var labelMatcher = regexp.MustCompile(`(\w+) *(?:=~|!~|!=|=)`)

// selector matches a metric in an expression, with its label matchers.
var selector = regexp.MustCompile(metricName.String() + `(?:\{([^}]*)\})?`)

// TestWhatIsAskedForIsShown: every metric and label in alerts and panels exists.
func TestWhatIsAskedForIsShown(t *testing.T) {
	names := shown(t)
	check := func(who, text string) {
		t.Helper()
		for _, asked := range selector.FindAllString(text, -1) {
			name, matchers, _ := strings.Cut(asked, "{")
			labels, there := names[name]
			if !there {
				t.Errorf("%s: there is no %s", who, name)
			}
			for _, label := range labelMatcher.FindAllStringSubmatch(matchers, -1) {
				if !slices.Contains(labels, label[1]) {
					t.Errorf("%s: %s has no %s", who, name, label[1])
				}
			}
		}
	}
	for alert, text := range alertRules(t) {
		check(alert, text)
	}
	panels, variables := dashboard(t)
	for _, p := range panels {
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %s asks for nothing", p.Title)
		}
		for _, target := range p.Targets {
			if check("panel "+p.Title, target.Expr); !metricName.MatchString(target.Expr) {
				t.Errorf("panel %s: %s asks for nothing", p.Title, target.Expr)
			}
		}
	}
	for _, v := range variables {
		check("a variable", v)
	}
}

// TestPanelsDoNotOverlap: panels do not overlap and lie within the 24 columns of a dashboard.
func TestPanelsDoNotOverlap(t *testing.T) {
	panels, _ := dashboard(t)
	for i, p := range panels {
		a := p.GridPos
		if a.X < 0 || a.W < 1 || a.X+a.W > 24 || a.H < 1 {
			t.Errorf("panel %s is at %+v", p.Title, a)
		}
		for _, q := range panels[:i] {
			if b := q.GridPos; a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
				t.Errorf("panels %s and %s overlap", p.Title, q.Title)
			}
		}
	}
}

// TestEveryAlertIsProvoked: promtool's tests make every alert fire.
func TestEveryAlertIsProvoked(t *testing.T) {
	tests, err := os.ReadFile(deploy + "alerts_test.yml")
	if err != nil {
		t.Fatal(err)
	}
	for alert := range alertRules(t) {
		if !bytes.Contains(tests, []byte(`alertname="`+alert+`"`)) {
			t.Errorf("alerts_test.yml does not provoke %s", alert)
		}
	}
}

// panelRules returns rules with the expressions of the dashboard's panels.
func panelRules(t *testing.T) string {
	t.Helper()
	values := strings.NewReplacer("$job", "sluice", "$instance", ".*", "$device", ".*", "$__range", "1h",
		"$__rate_interval", "1m")
	rules := "groups: [{name: panels, rules: ["
	panels, _ := dashboard(t)
	for i, p := range panels {
		for k, target := range p.Targets {
			rules += fmt.Sprintf("{record: 'panel:%d_%d', expr: %q},", i, k, values.Replace(target.Expr))
		}
	}
	return rules + "]}]"
}

// TestAlertsHaveTheirCountersFromTheStart checks that an idle switch has every counter whose
// increase an alert is about: Prometheus sees no increase from no series to its first value.
func TestAlertsHaveTheirCountersFromTheStart(t *testing.T) {
	f := newFake(t, 2)
	f.discovery = func(r *state.Switch) {
		r.Ports[0].LLDP, r.Ports[0].DCBX = new(state.LLDP), new(state.DCBX)
		r.Ports[0].FCoE, r.Ports[0].Parts = &state.PortFCoE{Role: "trusted"}, 3
	}
	scraped := scrape(t, serve(t, f, nil))
	asked := regexp.MustCompile(`increase\((\w+)(?:\{([^}]*)\})?\[`)
	found := 0
	for alert, expr := range alertRules(t) {
		for _, m := range asked.FindAllStringSubmatch(expr, -1) {
			found++
			if !slices.ContainsFunc(series(scraped, m[1]), func(line string) bool {
				return !slices.ContainsFunc(strings.Split(m[2], ","), func(label string) bool {
					return !strings.Contains(line, label)
				})
			}) {
				t.Errorf("%s: an idle switch has no %s{%s}", alert, m[1], m[2])
			}
		}
	}
	if found < 5 {
		t.Errorf("only %d alerts about an increase were found", found)
	}
}

// TestPromtool runs promtool on a scrape, the alerts with their tests, the configuration, and the
// expressions of the panels.
func TestPromtool(t *testing.T) {
	if _, err := exec.LookPath("promtool"); err != nil {
		t.Skipf("needs promtool (scripts/install-peers): %v", err)
	}
	f := newFake(t, 2)
	f.makeBusy(true)
	scraped := scrape(t, serve(t, f, nil))
	panels := filepath.Join(t.TempDir(), "panels.yml")
	if err := os.WriteFile(panels, []byte(panelRules(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		stdin []byte
		args  string
	}{
		{scraped, "check metrics"},
		{nil, "check rules alerts.yml"},
		{nil, "test rules alerts_test.yml"},
		{nil, "check config prometheus.yml"},
		{nil, "check rules " + panels},
	} {
		tool := exec.Command("promtool", strings.Fields(c.args)...)
		tool.Dir, tool.Stdin = deploy, bytes.NewReader(c.stdin)
		out, err := tool.CombinedOutput()
		if err != nil || c.stdin != nil && len(out) > 0 { // check metrics prints problems only
			t.Errorf("promtool %s: %v\n%s", c.args, err, out)
		}
	}
}

// TestUnit has systemd verify the unit, and checks its essential settings.
func TestUnit(t *testing.T) {
	text, err := os.ReadFile(deploy + "sluice.service")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	for _, line := range []string{
		"Type=notify", "WatchdogSec=60", "ExecStart=/usr/local/bin/sluice run -c /etc/sluice/sluice.yaml",
		"ExecReload=/usr/local/bin/sluice reload", "Restart=always", "StartLimitIntervalSec=0",
		"After=network.target", "RuntimeDirectory=sluice", "StateDirectory=sluice", "NoNewPrivileges=yes",
	} {
		if !slices.Contains(lines, line) {
			t.Errorf("the unit has no %s", line)
		}
	}
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skipf("needs systemd-analyze, to have the unit read by systemd: %v", err)
	}
	// The program that it starts need not be installed here.
	file := filepath.Join(t.TempDir(), "sluice.service")
	if err := os.WriteFile(file, bytes.ReplaceAll(text, []byte("/usr/local/bin/sluice"), []byte("/bin/true")),
		0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("systemd-analyze", "verify", "--man=no", file).CombinedOutput()
	if err != nil || strings.Contains(string(out), "sluice.service") {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}
