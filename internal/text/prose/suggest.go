package prose

import (
	"fmt"
	"strings"
)

// Suggestion returns what to do about an unknown word: the known word that was probably meant, or
// otherwise.
func Suggestion(word string, known []string, otherwise string) string {
	best, bestDistance := "", 1+min(2, len(word)/2)
	for _, k := range known {
		if d := editDistance(strings.ToLower(word), k); d < bestDistance {
			best, bestDistance = k, d
		}
	}
	if best == "" {
		return otherwise
	}
	return fmt.Sprintf("did you mean %q?", best)
}

// editDistance is the number of characters to insert, delete or replace to get from one word to the
// other (Levenshtein 1966; computed row by row after Wagner and Fischer 1974).
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
