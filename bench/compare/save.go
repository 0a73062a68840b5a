package compare

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"sluice/internal/linux/ownfile"
)

// Save writes the report to an existing directory: NAME.json, NAME.md, and NAME-PLOT.svg for each
// plot that NAME.md shows. NAME is the scenario's name, or NAME.partial for a partial report, which
// therefore does not replace a complete one.
func (r *Report) Save(directory string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("bench: write the report of %s: %w", r.Scenario, err)
	}
	files := map[string][]byte{r.file() + ".json": append(text, '\n'), r.file() + ".md": r.Markdown()}
	var errs []error
	for _, p := range r.Plots {
		if files[r.plotFile(p)], err = p.SVG(); err != nil {
			delete(files, r.plotFile(p)) // the rest is still useful
			errs = append(errs, fmt.Errorf("bench: write the report of %s: %w", r.Scenario, err))
		}
	}
	for name, content := range files {
		if err := ownfile.Write(filepath.Join(directory, name), content, 0o644); err != nil {
			errs = append(errs, fmt.Errorf("bench: write the report of %s: %w", r.Scenario, err))
		}
	}
	return errors.Join(errs...)
}

// file returns the prefix of the report's file names.
func (r *Report) file() string {
	if r.Partial {
		return r.Scenario + ".partial"
	}
	return r.Scenario
}

func (r *Report) plotFile(p Plot) string { return r.file() + "-" + p.Name + ".svg" }
