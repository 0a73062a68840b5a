package config

import (
	_ "embed"
	"encoding/json"

	"sluice/internal/config/schema"
)

// introduction is the text before the tables of keys.
//
//go:embed introduction.md
var introduction string

// MarshalJSON writes the configuration with the keys of a file, each with its value or its default,
// in the form of a file. Keys that have no effect are missing.
func (c *Config) MarshalJSON() ([]byte, error) {
	return json.Marshal(mapping("the file", fileKeys).plain(c))
}

// described returns the description of the whole file.
func described() *schema.Schema { return mapping("the file", fileKeys).schema }

// Schema returns the JSON Schema (draft 2020-12) of a configuration file: a JSON document that ends
// with a newline. Editors use it to complete and check a file that begins with
//
//	# yaml-language-server: $schema=sluice.schema.json
func Schema() []byte {
	return described().Document("Configuration of sluice, a lossless Ethernet switch")
}

// Reference returns the description of every key in Markdown, with a section for each mapping.
func Reference() string { return described().Reference(introduction) }
