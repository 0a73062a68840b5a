package capture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// Caller makes calls to a switch: *console.Client. A refusal is returned as an error.
type Caller interface {
	Call(ctx context.Context, method, path string) (*http.Response, error)
}

// beginTimeout is how long an interrupted client still waits for the switch to begin, so that the
// capture can end like any other, with a complete file.
const beginTimeout = 2 * time.Second

// endTimeout bounds the wait for a capture to end after it was told to. A draining switch needs
// part of it.
const endTimeout = 15 * time.Second

// ErrCut means that a stream ended before its file was complete. The part received is readable.
var ErrCut = errors.New("the switch aborted the capture: it was killed, or the capture was not read for too long; " +
	"see its log")

// Fetch has a switch capture and copies the file to the writer that open returns; open is called
// once the switch has begun. The capture ends at a limit of the query, with the switch, or when ctx
// is done. In all of these cases the file is complete and the summary known.
func Fetch(ctx context.Context, switches Caller, q *Query, open func() (io.Writer, error)) (Summary, error) {
	call, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	begun := make(chan struct{})
	defer context.AfterFunc(ctx, func() {
		select {
		case <-begun:
		case <-time.After(beginTimeout):
			cancel()
		}
	})()
	response, err := switches.Call(call, http.MethodGet, Path+"?"+q.Values().Encode())
	close(begun)
	if err != nil {
		return Summary{}, err
	}
	defer response.Body.Close()
	to, err := open()
	if err != nil {
		return Summary{}, err
	}
	id := response.Header.Get(idHeader)
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(endTimeout, cancel)
		if answer, err := switches.Call(call, http.MethodDelete, Path+"?"+url.Values{"id": {id}}.Encode()); err == nil {
			answer.Body.Close()
		} else {
			cancel() // it can't be ended in this way: close the stream
		}
	})
	defer stop()
	file := &outlet{Writer: to}
	if _, err := io.Copy(file, response.Body); file.err != nil {
		return Summary{}, fmt.Errorf("the capture can't be written: %w", file.err)
	} else if err != nil {
		return Summary{}, ErrCut
	}
	var s Summary
	if err := json.Unmarshal([]byte(response.Trailer.Get(summaryTrailer)), &s); err != nil {
		return s, ErrCut
	}
	return s, nil
}

// outlet keeps write errors, which io.Copy does not distinguish from read errors.
type outlet struct {
	io.Writer
	err error
}

func (o *outlet) Write(b []byte) (n int, err error) {
	n, err = o.Writer.Write(b)
	o.err = err
	return n, err
}
