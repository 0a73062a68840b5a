// Package examples holds configurations that load and run, each with its source or its use on top.
package examples

import "embed"

// Files are the configurations, by file name.
//
//go:embed *.yaml
var Files embed.FS
