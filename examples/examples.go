// Package examples embeds example configurations. Each begins with its source or its use.
package examples

import "embed"

// Files are the configurations, by file name.
//
//go:embed *.yaml
var Files embed.FS
