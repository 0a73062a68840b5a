// Package examples embeds example configurations. Each names its source or its use at the top.
package examples

import "embed"

// Files are the configurations, by file name.
//
//go:embed *.yaml
var Files embed.FS
