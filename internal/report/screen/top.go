package screen

import (
	"fmt"
	"strings"

	"sluice/internal/state"
	"sluice/internal/text/prose"
)

// top returns the lines above the sections. The first line says whether lossless frames were
// dropped, or that this is unknown.
func (v *View) top() []Line {
	if v.Trouble != "" {
		return append([]Line{v.lastWord()}, wrap(v.Trouble, v.Width, Bad)...)
	}
	if v.Now == nil {
		return []Line{{"lossless drops: not known yet", Plain}}
	}
	return append(v.headline(), v.summary())
}

// lastWord returns the first line when the switch does not answer. It reports the last known number
// as old, not as current.
func (v *View) lastWord() Line {
	if v.Now == nil {
		return Line{"lossless drops: unknown", Bad}
	}
	return Line{fmt.Sprintf("lossless drops: unknown; %d in the last report, %s ago", v.Now.LosslessDrops,
		span(float64(v.Silence))), Bad}
}

// headline returns the number of lossless drops, which must stay 0. Bad news may take several
// lines.
func (v *View) headline() []Line {
	if v.Now.LosslessDrops == 0 && v.Now.StalledNS == 0 && len(v.Now.Mismatches())+len(v.Now.Loops()) == 0 &&
		v.Now.OtherLosses() == "" {
		return []Line{{v.Now.Headline(), Good}}
	}
	return wrap(v.Now.Headline(), v.Width, Bad)
}

// summary returns the second line: pause storms, a rejected reload, or otherwise the size and age
// of the switch.
func (v *View) summary() Line {
	r := v.Now
	if storms := storming(r); storms != "" {
		return Line{"pause storm: " + storms, Bad}
	}
	if why := r.Configuration.Error; why != "" {
		return Line{"the last reload was refused: " + firstLine(why), Bad}
	}
	text := fmt.Sprintf("%s, %s, up %s, pause storms: %d, config %d loaded %s ago",
		prose.Count(len(r.Ports), "port"),
		prose.Count(len(r.Workers), "worker"), span(float64(r.UptimeNS)), r.PauseStorms, r.Configuration.Generation,
		span(float64(r.Time.Sub(r.Configuration.LoadedAt))))
	return Line{text, Plain}
}

// storming lists the classes that are in a pause storm now.
func storming(r *state.Switch) string {
	var all []string
	for i := range r.Ports {
		for _, c := range r.Ports[i].ByCoS {
			if c.Storming {
				all = append(all, fmt.Sprintf("%s cos %d", r.Ports[i].Name, c.CoS))
			}
		}
	}
	return strings.Join(all, ", ")
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// wrap breaks a text that is wider than the window into lines between words.
func wrap(text string, width int, style Style) []Line {
	if len(text) <= width {
		return []Line{{text, style}}
	}
	clean := fit(strings.Join(strings.Fields(text), " "), len(text))
	var lines []Line
	for line := range strings.SplitSeq(prose.Wrap(clean, width, ""), "\n") {
		lines = append(lines, Line{line, style})
	}
	return lines
}
