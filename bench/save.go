package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Save writes the report to a directory that exists: NAME.json, NAME.md for people, and
// NAME-PLOT.svg for each of the plots that NAME.md shows. NAME is that of the scenario,
// NAME.partial if the report is partial: that does not replace a whole one.
func (r *Report) Save(directory string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("bench: report of %s: %w", r.Scenario, err)
	}
	files := map[string][]byte{r.file() + ".json": append(text, '\n'), r.file() + ".md": r.Markdown()}
	var errs []error
	for _, p := range r.Plots {
		if files[r.plotFile(p)], err = p.SVG(); err != nil {
			delete(files, r.plotFile(p)) // the rest is worth having all the same
			errs = append(errs, fmt.Errorf("bench: report of %s: %w", r.Scenario, err))
		}
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(directory, name), content, 0o644); err != nil {
			errs = append(errs, fmt.Errorf("bench: report of %s: %w", r.Scenario, err))
		}
	}
	return errors.Join(errs...)
}

// file is what the names of the report's files begin with.
func (r *Report) file() string {
	if r.Partial {
		return r.Scenario + ".partial"
	}
	return r.Scenario
}

func (r *Report) plotFile(p Plot) string { return r.file() + "-" + p.Name + ".svg" }
