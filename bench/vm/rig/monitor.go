package rig

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// monitor is a connection to QEMU (QMP, docs/interop/qmp-spec.rst).
type monitor struct {
	lock       sync.Mutex
	connection net.Conn
	answers    *json.Decoder
}

// newMonitor begins a session.
func newMonitor(c net.Conn) (*monitor, error) {
	m := &monitor{connection: c, answers: json.NewDecoder(c)}
	var greeting struct {
		QMP *struct{} `json:"QMP"`
	}
	err := c.SetDeadline(time.Now().Add(answerTime))
	if err == nil {
		err = m.answers.Decode(&greeting)
	}
	if err == nil && greeting.QMP == nil {
		err = errors.New("it sent something else")
	}
	if err != nil {
		return nil, fmt.Errorf("rig: no greeting from QEMU: %w", err)
	}
	return m, m.do("qmp_capabilities", nil)
}

// do executes a command and waits for its result. Events in between are ignored.
func (m *monitor) do(command string, arguments map[string]any) error {
	m.lock.Lock()
	defer m.lock.Unlock()
	request := map[string]any{"execute": command}
	if arguments != nil {
		request["arguments"] = arguments
	}
	err := m.connection.SetDeadline(time.Now().Add(answerTime))
	if err == nil {
		err = json.NewEncoder(m.connection).Encode(request)
	}
	if err != nil {
		return fmt.Errorf("rig: QEMU: %s: %w", command, err)
	}
	for {
		var answer struct {
			Return json.RawMessage `json:"return"`
			Error  *struct {
				Description string `json:"desc"`
			} `json:"error"`
		}
		switch err := m.answers.Decode(&answer); {
		case err != nil:
			return fmt.Errorf("rig: QEMU: %s: %w", command, err)
		case answer.Error != nil:
			return fmt.Errorf("rig: QEMU: %s: %s", command, answer.Error.Description)
		case answer.Return != nil:
			return nil
		}
	}
}
