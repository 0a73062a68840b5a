// Package console is how people and their programs look at a running switch and steer it: the
// Server, which answers on a local socket, and the Client.
//
// The protocol is HTTP/1.1 over a Unix stream socket, one request a connection, with JSON bodies:
//
//	GET  /v3/state               a state.Switch
//	GET  /v2/fdb                 []state.FDBEntry
//	GET  /v1/config              a File
//	POST /v1/reload              the switch reads its file again; answers with a state.Configuration
//	POST /v1/watermarks/clear    answers with a Cleared, as the next two do
//	POST /v1/counters/clear
//	POST /v2/fdb/clear           an FDBOrder
//	POST /v1/storm               a StormOrder, which is the answer, too
//	POST /v1/port                a PortOrder; answers with a PortDone
//
// A capture (package capture) is a further thing to ask for, by GET and DELETE of /v1/capture.
// Viewers have a socket of their own (config.ViewSocket), which answers no order and no capture.
//
// What can't be done is answered with a status of 400 or above and {"error": "…"}.
package console

// File is the configuration file as it was when the switch loaded it.
type File struct {
	File string `json:"file"`
	Text string `json:"text"`
}
