package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/config"
	"sluice/internal/control"
	"sluice/internal/state"
)

// DefaultSocket is the default path of a switch's control socket.
const DefaultSocket = config.DefaultSocket

// answerTimeout is the default Patience of a Client. A reload takes longest: it ends when every
// worker has changed over.
const answerTimeout = 30 * time.Second

// maxAnswer bounds an answer that a Client reads, in bytes: more than a full FDB.
const maxAnswer = 256 << 20

// ErrRefused means that the switch was reached but refuses; the message says why.
var ErrRefused = errors.New("refused")

// ErrNoSwitch means that no switch answers on the socket: it does not exist, or nothing listens
// there. Other errors leave open whether one runs.
var ErrNoSwitch = errors.New("no switch answers")

// Refusal is an answer with an error status.
type Refusal struct {
	Status        int // HTTP status
	Message       string
	Configuration bool // the configuration is at fault: Message has its lines
}

func (r *Refusal) Error() string { return r.Message }

// Is makes errors.Is find ErrRefused.
func (r *Refusal) Is(target error) bool { return target == ErrRefused }

// Client calls a switch on this machine. Any number of goroutines may use it.
type Client struct {
	Patience time.Duration // time limit of a call, including its whole answer; set it before the first call
	socket   string
	http     http.Client
}

// Dial returns a client for the switch at a socket. It does not connect; each call does, and fails
// with what to do about it if no switch answers there.
func Dial(socket string) *Client {
	c := &Client{Patience: answerTimeout, socket: socket}
	c.http.Transport = &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			connection, err := new(net.Dialer).DialContext(ctx, "unix", socket)
			if errors.Is(err, fs.ErrPermission) { // a viewer, perhaps
				if view, e := new(net.Dialer).DialContext(ctx, "unix", config.ViewSocket(socket)); e == nil {
					return view, nil
				}
			}
			return connection, err
		},
		DisableKeepAlives: true, DisableCompression: true,
	}
	return c
}

// State returns the state of the switch. The path has the version of the state's schema, so that a
// program never reads numbers in other units than it expects.
func (c *Client) State(ctx context.Context) (*state.Switch, error) {
	return ask[state.Switch](ctx, c, http.MethodGet, "/v4/state", nil)
}

// FDB returns the FDB entries, by VLAN and address.
func (c *Client) FDB(ctx context.Context) ([]state.FDBEntry, error) {
	entries, err := ask[[]state.FDBEntry](ctx, c, http.MethodGet, "/v2/fdb", nil)
	if err != nil {
		return nil, err
	}
	return *entries, nil
}

// Config returns the configuration file as it was when the switch loaded it.
func (c *Client) Config(ctx context.Context) (*File, error) {
	return ask[File](ctx, c, http.MethodGet, "/v1/config", nil)
}

// Reload has the switch read its configuration file again and change over to it. If it refuses,
// nothing has changed; if that is because of the file, the error is a Refusal with Configuration
// set.
func (c *Client) Reload(ctx context.Context) (*state.Configuration, error) {
	return ask[state.Configuration](ctx, c, http.MethodPost, "/v1/reload", nil)
}

// Preview returns what a reload would change if the configuration file had this text. Its error is
// that of Reload.
func (c *Client) Preview(ctx context.Context, text []byte) (*control.Preview, error) {
	return ask[control.Preview](ctx, c, http.MethodPost, "/v1/reload/preview", File{Text: string(text)})
}

// ask makes a call and returns its answer, decoded.
func ask[Answer any](ctx context.Context, c *Client, method, path string, order any) (*Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Patience)
	defer cancel()
	body, err := json.Marshal(order)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://sluice"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.http.Do(request)
	if err != nil {
		return nil, c.unreachable(err)
	}
	defer response.Body.Close()
	answer := json.NewDecoder(io.LimitReader(response.Body, maxAnswer))
	if response.StatusCode == http.StatusNotFound {
		return nil, fmt.Errorf("the switch at %s and this program are different versions of sluice: use the program "+
			"that the switch runs, or restart the switch with this one", c.socket)
	}
	if response.StatusCode >= http.StatusBadRequest {
		return nil, refusalOf(response.StatusCode, answer)
	}
	a := new(Answer)
	if err := answer.Decode(a); err != nil {
		return nil, c.unreachable(fmt.Errorf("reading its answer: %w", err))
	}
	return a, nil
}

// refusal is the body of an answer with an error.
type refusal struct {
	Error         string `json:"error"`
	Configuration bool   `json:"configuration,omitempty"`
}

func refusalOf(status int, answer *json.Decoder) error {
	var said refusal
	if err := answer.Decode(&said); err != nil || said.Error == "" {
		said.Error = fmt.Sprintf("the switch answered %d %s", status, strings.ToLower(http.StatusText(status)))
	}
	return &Refusal{Status: status, Message: said.Error, Configuration: said.Configuration}
}

// unreachable adds to an error what to do when no switch has answered, or not completely.
func (c *Client) unreachable(err error) error {
	switch {
	case errors.Is(err, context.Canceled):
		return context.Canceled
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ECONNREFUSED):
		return fmt.Errorf("%w at %s: start one with `sluice run -c FILE`, or name its socket with --socket",
			ErrNoSwitch, c.socket)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("the switch at %s accepts only root and its group: use sudo, or set control.group to a "+
			"group of this user, or control.viewers for read-only access", c.socket)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the switch at %s has not answered within %v: check whether other processes use its CPU, "+
			"or another client delays it", c.socket, c.Patience)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, unix.ECONNRESET),
		errors.Is(err, unix.EPIPE):
		return fmt.Errorf("the switch at %s closed the connection before the end of its answer: it has ended, or "+
			"this program read too slowly", c.socket)
	}
	var call *url.Error // it names the URL, which means nothing to users
	if errors.As(err, &call) {
		err = call.Err
	}
	return fmt.Errorf("asking the switch at %s: %w", c.socket, err)
}
