package metrics

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/config"
)

func TestLandingPage(t *testing.T) {
	e := serve(t, newFake(t, 1), nil)
	page := string(get(t, http.DefaultClient, "http://"+e.Address()+"/"))
	for _, word := range []string{"Sluice", "v1.2.3", `href="/metrics"`} {
		if !strings.Contains(page, word) {
			t.Errorf("no %s on the first page:\n%s", word, page)
		}
	}
	if strings.Contains(page, "/debug/pprof") {
		t.Error("the first page promises profiles")
	}
	for _, path := range []string{"/debug/pprof/", "/metric"} {
		if _, status := fetch(t, http.DefaultClient, "http://"+e.Address()+path); status != http.StatusNotFound {
			t.Errorf("%s: status %d", path, status)
		}
	}
}

func TestNowhere(t *testing.T) {
	f := newFake(t, 1)
	f.config.Metrics.Listen = ""
	e := Listen(placeOf(f.config))
	if e != nil {
		t.Fatalf("%v", e)
	}
	e.Serve(f, f, "", nil)()
}

// listening returns a configuration with given keys of metrics.
func listening(t *testing.T, keys string) *config.Config {
	t.Helper()
	c, err := config.Parse("test.yaml", []byte("metrics: {"+keys+"}\nports: [{device: sw0, speed: 1G}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// checkProblem checks that an error is about the configuration and contains these words.
func checkProblem(t *testing.T, err error, words ...string) {
	t.Helper()
	var problem *config.Error
	if !errors.As(err, &problem) {
		t.Errorf("%v, want %q", err, words)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%v: does not say %q", err, word)
		}
	}
}

// TestWebConfigErrors: each error says which key to change, and how.
func TestWebConfigErrors(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "web.yaml")
	wrong := filepath.Join(t.TempDir(), "web.yaml")
	if err := os.WriteFile(wrong, []byte("tls_server_config: {cert: x.pem}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	checkProblem(t, Listen(placeOf(listening(t, "web_config: "+missing))).missing, "test.yaml:1:23: ",
		"metrics.web_config: ", missing, "no such file")
	checkProblem(t, Listen(placeOf(listening(t, "web_config: "+wrong))).missing, "test.yaml:1:23: ",
		"metrics.web_config: ", "correct the file")
}

// TestAddressIsMissing: the error for an unavailable address says what to do.
func TestAddressIsMissing(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for keys, words := range map[string][]string{
		"listen: " + taken.Addr().String(): {"test.yaml:1:19: ", "address already in use",
			"set metrics.listen to another address", "ss -ltnp"},
		"listen: 192.0.2.1:9473": {"test.yaml:1:19: ", "cannot assign requested address", "set metrics.listen to",
			"ip link set lo up"},
	} {
		e := Listen(placeOf(listening(t, keys)))
		checkProblem(t, e.missing, words...)
		f := newFake(t, 1)
		e.Serve(f, f, "", slog.New(slog.DiscardHandler))() // it ends although it waits
	}
}

// TestAddressComesLater: when the address is released, the metrics are served.
func TestAddressComesLater(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := Listen(placeOf(listening(t, "listen: "+taken.Addr().String())))
	f := newFake(t, 1)
	defer e.Serve(f, f, "", slog.New(slog.NewTextHandler(t.Output(), nil)))()
	address := taken.Addr().String()
	if err := taken.Close(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(listenInterval / 10) {
		response, err := http.Get("http://" + address + "/metrics")
		if err == nil {
			response.Body.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// TestWebConfigComesLater: a certificate that appears only after the start, as from a service that
// fetches it, delays only the metrics.
func TestWebConfigComesLater(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "web.yaml")
	if err := os.WriteFile(file, []byte("tls_server_config: {cert_file: cert.pem, key_file: key.pem}\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	f := newFake(t, 1)
	f.config.Metrics.Listen, f.config.Metrics.WebConfig = "127.0.0.1:0", file
	e := Listen(placeOf(f.config))
	var log journal
	stop := e.Serve(f, f, "", slog.New(slog.NewTextHandler(&log, nil)))
	defer stop()
	log.await(t, "level=WARN", "metrics not served yet, retrying", "metrics.web_config", "cert.pem")
	authority := certify(t, dir)
	log.await(t, "metrics served")
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authority}}}
	if text := get(t, client, "https://"+e.Address()+"/metrics"); !strings.Contains(string(text), "sluice_up 1") {
		t.Errorf("%s", text)
	}
}

// TestTLSAndPasswords: a web_config works as with Prometheus exporters, but never with HTTP/2,
// whose streams are not limited.
func TestTLSAndPasswords(t *testing.T) {
	dir := t.TempDir()
	authority := certify(t, dir)
	const hash = "$2a$04$Ggy/CLXWZLUp7RmA/u5fSOnw6nT1IuD.LFnJsIu1ap7a5Rr0G7lb2" // bcrypt of "secret"
	file := filepath.Join(dir, "web.yaml")
	text := fmt.Sprintf(
		"tls_server_config: {cert_file: cert.pem, key_file: key.pem}\nbasic_auth_users: {prometheus: %q}\n", hash)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f := newFake(t, 1)
	f.config.Metrics.WebConfig = file
	e := serve(t, f, nil)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authority},
		ForceAttemptHTTP2: true}}
	if _, status := fetch(t, client, "https://"+e.Address()+"/metrics"); status != http.StatusUnauthorized {
		t.Errorf("without a password: status %d", status)
	}
	if _, status := fetch(t, client, "https://prometheus:guess@"+e.Address()+
		"/metrics"); status != http.StatusUnauthorized {
		t.Errorf("with a wrong password: status %d", status)
	}
	if text := get(t, client, "https://prometheus:secret@"+e.Address()+"/metrics"); !strings.Contains(string(text),
		"sluice_up 1") {
		t.Errorf("with the password:\n%s", text)
	}
	response, err := client.Get("https://" + e.Address() + "/")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.ProtoMajor != 1 {
		t.Errorf("spoken is %s", response.Proto)
	}
}

// TestWebConfigThatBreaks: when the web_config breaks while the switch runs, in whatever way,
// no request succeeds, the log says why, and requests succeed again when it is fixed.
func TestWebConfigThatBreaks(t *testing.T) {
	dir := t.TempDir()
	authority := certify(t, dir)
	file := filepath.Join(dir, "web.yaml")
	const good = "tls_server_config: {cert_file: cert.pem, key_file: key.pem}\n"
	replace := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	replace("web.yaml", good)
	f := newFake(t, 1)
	f.config.Metrics.Listen, f.config.Metrics.WebConfig = "127.0.0.1:0", file
	e := Listen(placeOf(f.config))
	var log journal
	defer e.Serve(f, f, "", slog.New(slog.NewTextHandler(&log, nil)))()
	client := &http.Client{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authority}, DisableKeepAlives: true},
		Timeout:   time.Minute,
	}
	url := "https://" + e.Address() + "/metrics"
	get(t, client, url)
	key, err := os.ReadFile(filepath.Join(dir, "key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ file, broken, good, word string }{
		"no YAML": {"web.yaml", "tls_server_config: [", good, "yaml"},
		"a key":   {"key.pem", "", string(key), "in key input"},
	} {
		replace(c.file, c.broken)
		if response, err := client.Get(url); err == nil {
			t.Errorf("%s: an answer with status %d", name, response.StatusCode)
			response.Body.Close()
		}
		log.await(t, "level=ERROR", "correct metrics.web_config", file, c.word)
		replace(c.file, c.good)
		get(t, client, url)
	}
}

// TestWebConfigThatBreaksTooEarly: the web_config breaks before it is used. Then no client waits
// for an answer that does not come.
func TestWebConfigThatBreaksTooEarly(t *testing.T) {
	file := filepath.Join(t.TempDir(), "web.yaml")
	if err := os.WriteFile(file, []byte("basic_auth_users: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := newFake(t, 1)
	f.config.Metrics.Listen, f.config.Metrics.WebConfig = "127.0.0.1:0", file
	e := Listen(placeOf(f.config))
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	var log journal
	defer e.Serve(f, f, "", slog.New(slog.NewTextHandler(&log, nil)))()
	log.await(t, "level=ERROR", "metrics no longer served", file)
	if c, err := net.Dial("tcp", e.Address()); err == nil {
		c.Close()
		t.Error("somebody listens, and does not answer")
	}
}

// journal is a log that can be read while it is written.
type journal struct {
	lock sync.Mutex
	text strings.Builder
}

func (j *journal) Write(b []byte) (int, error) {
	j.lock.Lock()
	defer j.lock.Unlock()
	return j.text.Write(b)
}

// await waits for a line with some words, and clears the log.
func (j *journal) await(t *testing.T, words ...string) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		j.lock.Lock()
		text := j.text.String()
		j.lock.Unlock()
		missing := slices.IndexFunc(words, func(word string) bool { return !strings.Contains(text, word) })
		if missing < 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the log does not say %q:\n%s", words[missing], text)
		}
	}
	j.lock.Lock()
	defer j.lock.Unlock()
	j.text.Reset()
}

// certify writes cert.pem and key.pem for 127.0.0.1, and returns the authority.
func certify(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	for name, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: der},
		"key.pem": {Type: "PRIVATE KEY", Bytes: secret}} {
		text := pem.EncodeToMemory(block)
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
		pool.AppendCertsFromPEM(text)
	}
	return pool
}

// TestSlowClients: clients that never read an answer hold a bounded number of turns for a bounded
// time; then others get them.
func TestSlowClients(t *testing.T) {
	f := newFake(t, manyPorts)
	f.makeBusy(false)
	const scrapes = 4
	e := serve(t, f, func(e *Endpoint) {
		e.scrapes, e.kept, e.request, e.answer = scrapes, 0, 500*time.Millisecond, 3*time.Second
		e.listener = narrow{e.listener}
	})
	began := time.Now()
	for range scrapes {
		c, err := net.Dial("tcp", e.Address())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	for {
		text, status := fetch(t, http.DefaultClient, "http://"+e.Address()+"/metrics")
		took := time.Since(began)
		if status == http.StatusOK && len(series(text, "sluice_up 1")) == 1 {
			t.Logf("a scrape behind %d slow clients took %v", scrapes, took)
			return
		}
		if took > 3*e.answer {
			t.Fatalf("no scrape behind those who had %v within %v", e.answer, took)
		}
	}
}

// TestSilentClients: many clients that send nothing, or half a request, delay no scrape, even one
// from the same address.
func TestSilentClients(t *testing.T) {
	const silent = 300
	for name, says := range map[string]string{"nothing": "", "half a request": "GET /metrics HTT"} {
		t.Run(name, func(t *testing.T) {
			e := serve(t, newFake(t, 1), func(e *Endpoint) { e.request = time.Hour }) // so that only eviction helps
			for range silent {
				c, err := net.Dial("tcp", e.Address())
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				if _, err := io.WriteString(c, says); err != nil {
					t.Fatal(err)
				}
			}
			for range 3 {
				if text := scrape(t, e); len(series(text, "sluice_up 1")) != 1 {
					t.Errorf("%s", text)
				}
			}
		})
	}
}

// TestSeatsKeptForTheScraper: the address of the last successful scrape has turns while others hold
// all regular ones.
func TestSeatsKeptForTheScraper(t *testing.T) {
	f := newFake(t, manyPorts)
	f.makeBusy(false)
	e := serve(t, f, func(e *Endpoint) {
		e.connections, e.scrapes, e.kept, e.answer = 4, 4, 1, time.Hour // so that only the kept turn helps
		e.listener = narrow{e.listener}
	})
	scrape(t, e) // from 127.0.0.1
	other := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	for range 4 {
		c, err := other.Dial("tcp", e.Address())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, make([]byte, 100)); err != nil { // its answer has begun, and is read no further
			t.Fatal(err)
		}
	}
	if text := scrape(t, e); len(series(text, "sluice_up 1")) != 1 {
		t.Errorf("%s", text)
	}
}

// narrow has connections that buffer little beyond what their reader takes.
type narrow struct{ net.Listener }

func (n narrow) Accept() (net.Conn, error) {
	c, err := n.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return c, c.(*net.TCPConn).SetWriteBuffer(4096)
}
