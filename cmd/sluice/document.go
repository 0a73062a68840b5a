package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// schemaVersion is the version of the JSON documents. It grows when a field is removed, renamed or
// changes its meaning; docs/json.md documents each version.
const schemaVersion = 5

// writeDocument writes object as one line of JSON that starts with the schema version.
func writeDocument(w io.Writer, object any) error {
	encoded, err := json.Marshal(object)
	if err != nil {
		return err
	}
	fields, is := bytes.CutPrefix(encoded, []byte("{"))
	if !is {
		return fmt.Errorf("%T is not a JSON object", object)
	}
	separator := ","
	if fields[0] == '}' {
		separator = ""
	}
	_, err = fmt.Fprintf(w, "{\"schema\":%d%s%s\n", schemaVersion, separator, fields)
	return err
}
