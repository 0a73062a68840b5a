// Package console is the control socket of a running switch, for people and programs: the Server,
// which answers on a local socket, and the Client.
//
// The protocol is HTTP/1.1 over a Unix stream socket, one request per connection, with JSON bodies:
//
//	GET  /v4/state               a state.Switch
//	GET  /v2/fdb                 []state.FDBEntry
//	GET  /v1/config              a File
//	POST /v1/reload              the switch reads its file again; answers with a state.Configuration
//	POST /v1/reload/preview      a File; answers with a control.Preview of its reload
//	POST /v1/watermarks/clear    answers with a Cleared, as the next two do
//	POST /v1/counters/clear
//	POST /v2/fdb/clear           an FDBOrder
//	POST /v1/storm               a StormOrder, which is also the answer
//	POST /v1/port                a PortOrder; answers with a PortDone
//
// Captures (package capture) use GET and DELETE of /v1/capture. Viewers have a socket of their own
// (config.ViewSocket), which accepts no orders and no captures.
//
// Failures have a status of 400 or above and the body {"error": "…"}.
package console

// File is the configuration file as it was when the switch loaded it, or as it could be.
type File struct {
	File string `json:"file"`
	Text string `json:"text"`
}
