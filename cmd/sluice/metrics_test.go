package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"sluice/bench/netns"
	"sluice/bench/testkit/program"
	"sluice/pmd/afxdp"
)

const (
	metricsAddress    = "127.0.0.1:9473"
	prometheusAddress = "127.0.0.1:9090" // in its own namespace
)

// scrapedConfiguration serves metrics and has a fast watchdog.
const scrapedConfiguration = `
metrics: {listen: "127.0.0.1:9473"}
classes:
  - {cos: [3], lossless: true, headroom: 6MB}
watchdog: {detection: 100ms, restoration: 100ms}
forwarding: {loop_guard: off} # a frame that a host has no buffers for is one that the device refused
ports:
  - {device: port1, speed: 1G}
  - {device: port2, speed: 1G}
`

// clientIn returns an HTTP client that connects from a namespace.
func clientIn(n *netns.Namespace) *http.Client {
	dial := func(ctx context.Context, network, address string) (c net.Conn, err error) {
		err = n.Do(func() error {
			c, err = new(net.Dialer).DialContext(ctx, network, address)
			return err
		})
		return c, err
	}
	return &http.Client{Transport: &http.Transport{DialContext: dial}, Timeout: program.Patience}
}

// getIn returns the body of a URL, or nil if there is no answer.
func getIn(c *http.Client, url string) []byte {
	response, err := c.Get(url)
	if err != nil {
		return nil
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return nil
	}
	return body
}

// prometheus is a Prometheus server that scrapes a switch, with the project's alert rules.
type prometheus struct {
	t *testing.T
	*http.Client
}

// startPrometheus starts a Prometheus that scrapes every second, and waits until it has scraped the
// switch.
func startPrometheus(t *testing.T, in *netns.Namespace) *prometheus {
	t.Helper()
	if _, err := exec.LookPath("prometheus"); err != nil {
		t.Skipf("needs prometheus (scripts/install-peers): %v", err)
	}
	dir := t.TempDir()
	for _, file := range []string{"prometheus.yml", "alerts.yml"} {
		text, err := os.ReadFile("../../deploy/" + file)
		if err != nil {
			t.Fatal(err)
		}
		text = bytes.ReplaceAll(text, []byte("_interval: 15s"), []byte("_interval: 1s"))
		if err := os.WriteFile(filepath.Join(dir, file), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	program.LaunchCommand(t, in, exec.Command("prometheus", "--config.file="+filepath.Join(dir, "prometheus.yml"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+prometheusAddress,
		"--log.level=warn"))
	p := &prometheus{t, clientIn(in)}
	program.Until(t, "a first scrape",
		func() bool { return p.value(`up{job="sluice"} and on(instance) sluice_up`) == "1" })
	return p
}

// ask queries the API of Prometheus.
func (p *prometheus) ask(path string, data any) bool {
	answer := struct {
		Status string
		Data   any
	}{Data: data}
	return json.Unmarshal(getIn(p.Client, "http://"+prometheusAddress+"/api/v1/"+path), &answer) == nil &&
		answer.Status == "success"
}

// value returns the value of a query with one result, or "".
func (p *prometheus) value(query string) string {
	var data struct{ Result []struct{ Value [2]any } }
	if !p.ask("query?query="+url.QueryEscape(query), &data) || len(data.Result) != 1 {
		return ""
	}
	return fmt.Sprint(data.Result[0].Value[1])
}

// firing returns the firing alerts with name, port and priority.
func (p *prometheus) firing() (alerts []string) {
	p.t.Helper()
	var data struct {
		Alerts []struct {
			State  string
			Labels map[string]string
		}
	}
	if !p.ask("alerts", &data) {
		p.t.Fatal("Prometheus does not say which alerts fire")
	}
	for _, a := range data.Alerts {
		if a.State == "firing" {
			alerts = append(alerts,
				strings.TrimSpace(fmt.Sprint(a.Labels["alertname"], " ", a.Labels["device"], " ",
					a.Labels["priority"])))
		}
	}
	return alerts
}

// TestPrometheusSeesAStorm checks that a Prometheus with the delivered configuration fires an alert
// when a host pauses forever.
func TestPrometheusSeesAStorm(t *testing.T) {
	s := program.NewSite(t, 2)
	p := program.StartSwitch(t, s.Home, scrapedConfiguration)
	prometheus := startPrometheus(t, s.Home)
	calm := func() []string { // without the alert for a machine that is too busy
		return slices.DeleteFunc(prometheus.firing(),
			func(alert string) bool { return strings.HasPrefix(alert, "SluiceWorkerLate") })
	}
	if alerts := calm(); len(alerts) > 0 {
		t.Errorf("alerts fire before anything has happened: %q", alerts)
	}
	storm := program.Lab(t, s.Hosts[1], "gen", "-d", program.HostDevice, "--mode", "rxonly", "--inject", "3:65535",
		"--inject-interval", "1ms",
		"--speed", "1G", "--stats-period", "1", "--json")
	storm.Await(1, "Port statistics")
	program.Lab(t, s.Hosts[0], "gen", "-d", program.HostDevice, "--dst",
		program.AddressIn(t, s.Hosts[1], program.HostDevice), "--mix", "3:100", "--rate", "1Kpps", "--pfc", "3",
		"--speed", "1G", "--duration", "60s")
	const alert = "SluicePauseStorm port2 3"
	program.Until(t, alert, func() bool { return slices.Contains(calm(), alert) })
	if alerts := calm(); !slices.Equal(alerts, []string{alert}) {
		t.Errorf("firing are %q, want only %s", alerts, alert)
	}
	storm.Signal(unix.SIGINT)
	program.Until(t, "an end of the storm", func() bool { return prometheus.value("sum(sluice_pfc_storming)") == "0" })
	paused := prometheus.value(
		`sluice_pfc_paused_seconds_total{device="port2", priority="3", direction="received"} > bool 0.1`)
	storms := prometheus.value(`sluice_pfc_storms_total{device="port2", priority="3"} >= bool 1`)
	if paused != "1" || storms != "1" {
		t.Errorf("Prometheus has seen no pause (%s) or no storm (%s)", paused, storms)
	}
	var rules struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError string }
		}
	}
	if !prometheus.ask("rules", &rules) || len(rules.Groups) == 0 {
		t.Fatal("Prometheus has no rules")
	}
	for _, r := range rules.Groups[0].Rules {
		if r.Health != "ok" {
			t.Errorf("%s can't be evaluated: %s", r.Name, r.LastError)
		}
	}
	took := prometheus.value(`max_over_time(scrape_duration_seconds{job="sluice"}[1m])`)
	samples := prometheus.value(`scrape_samples_scraped{job="sluice"}`)
	t.Logf("the longest scrape took %s s, the last one had %s samples", took, samples)
	p.Signal(unix.SIGTERM)
	if code := p.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestMetricsAddressUnavailable checks that a switch whose metrics address is in use or not
// configured yet forwards, logs a fix, and serves metrics once the address is available, although
// it is confined.
func TestMetricsAddressUnavailable(t *testing.T) {
	const later = "192.0.2.1:9473"
	s, elsewhere := program.NewSite(t, 2), program.NewSite(t, 2)
	holder, err := listenIn(s.Home, metricsAddress)
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	held := program.Launch(t, s.Home, "run", "-c",
		readable(t, program.WithTransmitter(t, program.WithSocket(t, scrapedConfiguration))))
	held.Await(1, "sluice.yaml:2:19", metricsAddress, "address already in use", "set metrics.listen to another address")
	held.Await(1, "msg=confined")
	unconfigured := program.Launch(t, elsewhere.Home, "run", "-c",
		readable(t, program.WithTransmitter(t,
			program.WithSocket(t, strings.Replace(scrapedConfiguration, metricsAddress, later, 1)))))
	unconfigured.Await(1, "sluice.yaml:2:19", later, "cannot assign requested address")
	unconfigured.Await(1, "msg=confined")
	crossing(t, s)
	crossing(t, elsewhere)
	if err := errors.Join(holder.Close(), addAddress(elsewhere.Home, "lo", "192.0.2.1/32")); err != nil {
		t.Fatal(err)
	}
	for address, in := range map[string]*netns.Namespace{metricsAddress: s.Home, later: elsewhere.Home} {
		program.Until(t, "metrics at "+address, func() bool {
			return bytes.Contains(getIn(clientIn(in), "http://"+address+"/metrics"), []byte("\nsluice_up 1\n"))
		})
	}
	held.Await(1, "msg=\"metrics served\"")
	unconfigured.Await(1, "msg=\"metrics served\"")
	for _, p := range []*program.Running{held, unconfigured} {
		p.Signal(unix.SIGTERM)
		if code := p.ExitCode(); code != 0 {
			t.Errorf("exit code %d", code)
		}
	}
}

// listenIn listens in a namespace.
func listenIn(n *netns.Namespace, address string) (l net.Listener, err error) {
	err = n.Do(func() error {
		l, err = net.Listen("tcp", address)
		return err
	})
	return l, err
}

// addAddress adds an address to a device in a namespace.
func addAddress(n *netns.Namespace, device, address string) error {
	return n.Do(func() error {
		link, err := netlink.LinkByName(device)
		if err != nil {
			return err
		}
		a, err := netlink.ParseAddr(address)
		if err != nil {
			return err
		}
		return netlink.AddrAdd(link, a)
	})
}

// TestRefusedReloadIsSeen checks that a reload that changes the metrics address is rejected, and
// that the metrics say so.
func TestRefusedReloadIsSeen(t *testing.T) {
	s := program.NewSite(t, 2)
	p := program.StartSwitch(t, s.Home, scrapedConfiguration)
	file := p.Args[len(p.Args)-2]
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sees := func(value string) bool {
		return bytes.Contains(getIn(clientIn(s.Home), "http://"+metricsAddress+"/metrics"),
			[]byte("\nsluice_config_last_reload_successful "+value+"\n"))
	}
	write(t, file, strings.Replace(string(good), "9473", "9474", 1))
	p.Signal(unix.SIGHUP)
	p.Await(1, "configuration not reloaded", "metrics.listen can't change while the switch runs", "it is "+
		metricsAddress+" now")
	program.Until(t, "a refused reload to be seen", func() bool { return sees("0") })
	write(t, file, string(good))
	p.Signal(unix.SIGHUP)
	p.Await(1, "msg=\"configuration reloaded\"")
	program.Until(t, "a good reload to be seen", func() bool { return sees("1") })
	p.Stop()
}

// TestConfinedSwitchShowsItsMetrics checks that a confined switch serves metrics, including those
// of the process, with a password, and still rereads the file of passwords.
func TestConfinedSwitchShowsItsMetrics(t *testing.T) {
	s := program.NewSite(t, 2)
	web := filepath.Join(t.TempDir(), "web.yaml")
	const hash = "$2a$04$Ggy/CLXWZLUp7RmA/u5fSOnw6nT1IuD.LFnJsIu1ap7a5Rr0G7lb2" // bcrypt of "secret"
	users := fmt.Sprintf("basic_auth_users: {prometheus: %q}\n", hash)
	if err := os.WriteFile(web, []byte(users), 0o600); err != nil {
		t.Fatal(err)
	}
	p := program.StartSwitch(t, s.Home, strings.Replace(scrapedConfiguration, `9473"`, `9473", web_config: `+web, 1))
	p.Await(1, "msg=confined")
	client := clientIn(s.Home)
	if body := getIn(client, "http://"+metricsAddress+"/metrics"); body != nil {
		t.Error("shows its metrics to everyone")
	}
	body := string(getIn(client, "http://prometheus:secret@"+metricsAddress+"/metrics"))
	for _, name := range []string{"sluice_up 1", "process_cpu_seconds_total ", "process_open_fds ",
		"process_resident_memory_bytes ", "go_goroutines "} {
		if !strings.Contains(body, "\n"+name) {
			t.Errorf("there is no %s", name)
		}
	}
	write(t, web, strings.Replace(users, "prometheus", "other", 1))
	if getIn(client, "http://prometheus:secret@"+metricsAddress+"/metrics") != nil ||
		getIn(client, "http://other:secret@"+metricsAddress+"/metrics") == nil {
		t.Error("another user in the file makes no difference")
	}
	p.Stop()
}

// TestAdviceCanBeTaken checks that the commands named in alerts and the unit exist.
func TestAdviceCanBeTaken(t *testing.T) {
	named := regexp.MustCompile("(?:`|=/usr/local/bin/)sluice ([a-z]+(?: [a-z]+)*)")
	for _, file := range []string{"alerts.yml", "sluice.service", "README.md"} {
		text, err := os.ReadFile("../../deploy/" + file)
		if err != nil {
			t.Fatal(err)
		}
		advice := named.FindAllSubmatch(text, -1)
		if len(advice) == 0 {
			t.Errorf("%s names no command", file)
		}
		for _, a := range advice {
			words := strings.Fields(string(a[1]))
			if c, rest, err := command().Find(words); err != nil || len(rest) > 0 || c.Name() != words[len(words)-1] {
				t.Errorf("%s: there is no sluice %s (%v, %v)", file, a[1], rest, err)
			}
		}
	}
}

// TestNotifies: on the socket of systemd alone, a switch is ready although a link is missing,
// alive, reloading, and stopping.
func TestNotifies(t *testing.T) {
	s := program.NewSite(t, 2)
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "notify"),
		Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	t.Setenv("NOTIFY_SOCKET", socket.LocalAddr().String())
	t.Setenv("WATCHDOG_USEC", "600000")
	t.Setenv("WATCHDOG_PID", "") // ours, whatever that will be
	program.OnLink(t, s.Hosts[1], program.HostDevice, netlink.LinkSetDown)
	p := program.Launch(t, s.Home, "run", "-c",
		readable(t, program.WithTransmitter(t, program.WithSocket(t, scrapedConfiguration))))
	hear := func(line string) func() bool {
		return func() bool {
			b := make([]byte, 4096)
			if err := socket.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
				t.Fatal(err)
			}
			n, err := socket.Read(b)
			if err != nil {
				return false
			}
			return slices.Contains(strings.Split(string(b[:n]), "\n"), line)
		}
	}
	program.Until(t, "READY=1", hear("READY=1"))
	program.Until(t, "a status that names the port that is down",
		hear("STATUS=lossless drops: 0, ports up: 1 of 2, down: port2"))
	program.Until(t, "WATCHDOG=1", hear("WATCHDOG=1"))
	program.OnLink(t, s.Hosts[1], program.HostDevice, netlink.LinkSetUp)
	program.Until(t, "a status without ports that are down", hear("STATUS=lossless drops: 0, ports up: 2 of 2"))
	p.Signal(unix.SIGHUP)
	program.Until(t, "RELOADING=1", hear("RELOADING=1"))
	program.Until(t, "READY=1 after a reload", hear("READY=1"))
	p.Signal(unix.SIGTERM)
	program.Until(t, "STOPPING=1", hear("STOPPING=1"))
	if code := p.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestUnitGivesEnough: with what the unit leaves it, and no more, a switch forwards and ends well;
// one with a transmitter, with what the unit says that takes.
func TestUnitGivesEnough(t *testing.T) {
	s := program.NewSite(t, 2)
	unit, err := os.ReadFile("../../deploy/sluice.service")
	if err != nil {
		t.Fatal(err)
	}
	_, line, found := strings.Cut(string(unit), "\nCapabilityBoundingSet=")
	if !found {
		t.Fatal("the unit bounds no capabilities")
	}
	line, _, _ = strings.Cut(line, "\n")
	bounds := "-all"
	for _, name := range strings.Fields(line) {
		bounds += ",+" + strings.ToLower(strings.TrimPrefix(name, "CAP_"))
	}
	if *program.TXEngine == afxdp.TXTransmitter {
		bounds += ",+perfmon"
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("setpriv", "--no-new-privs", "--inh-caps=-all", "--bounding-set="+bounds, self, "run", "-c",
		readable(t, program.WithTransmitter(t, program.WithSocket(t, scrapedConfiguration))), "--json")
	c.Env = append(os.Environ(), program.AsProgram+"=1")
	p := program.LaunchCommand(t, s.Home, c)
	if *program.TXEngine == afxdp.TXTransmitter {
		p.Await(1, "will send nothing for 20 ms", "cap_sys_admin")
	}
	p.Await(2, `msg="link changed"`, "up=true")
	p.Await(1, "msg=confined")
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Process.Pid))
	if err != nil || !bytes.Contains(status, []byte("\nNoNewPrivs:\t1\n")) ||
		bytes.Contains(status, []byte("\nCapBnd:\t000001ffffffffff\n")) {
		t.Errorf("nothing was taken from the switch: %v\n%s", err, status)
	}
	sender := program.Lab(t, s.Hosts[0], "gen", "-d", program.HostDevice, "--dst",
		program.AddressIn(t, s.Hosts[1], program.HostDevice), "--rate", "1Kpps", "--duration", "200ms")
	if code := sender.ExitCode(); code != 0 {
		t.Errorf("the sender's exit code is %d", code)
	}
	if r := p.Stop(); r.Port(t, "port2").Sent == 0 {
		t.Errorf("nothing was forwarded: %+v", r)
	}
}
