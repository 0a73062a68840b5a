// Package prose formats text and numbers for people.
package prose

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Wrap breaks text between words into lines of at most width characters. A longer word gets a line
// of its own. All lines but the first begin with indent.
func Wrap(text string, width int, indent string) string {
	var b strings.Builder
	used := 0
	for _, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case used == 0:
		case used+1+n <= width:
			b.WriteByte(' ')
			used++
		default:
			b.WriteString("\n" + indent)
			used = utf8.RuneCountInString(indent)
		}
		b.WriteString(word)
		used += n
	}
	return b.String()
}

// Count formats a number of things: 1 port, 2 ports.
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// Join formats values with a separator between them, such as 0,1,2.
func Join[T any](values []T, separator string) string {
	all := make([]string, len(values))
	for i, v := range values {
		all[i] = fmt.Sprint(v)
	}
	return strings.Join(all, separator)
}
