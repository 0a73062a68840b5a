package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// emulator is a terminal with the features that the programs need; it renders what they write.
// Unknown sequences are errors, so that the programs only use what most terminals support.
type emulator struct {
	width, height int
	screen        page
	kept          page     // the normal screen while the alternate one is shown
	left          []string // lines scrolled off the top of the normal screen
	alternate     bool
	hidden        bool // the cursor
	nowrap        bool
	partial       string // an incomplete sequence
}

// page is the contents of a screen and the position of the cursor. After the last character of a
// line, x is the width.
type page struct {
	lines [][]rune
	x, y  int
}

func newEmulator(width, height int) *emulator {
	e := &emulator{width: width, height: height}
	e.screen = e.blank()
	return e
}

func (e *emulator) blank() page {
	p := page{lines: make([][]rune, e.height)}
	for i := range p.lines {
		p.lines[i] = e.blankLine()
	}
	return p
}

func (e *emulator) blankLine() []rune { return []rune(strings.Repeat(" ", e.width)) }

// resize changes the size of the window as xterm does: lines are cut or extended at the right and
// at the bottom.
func (e *emulator) resize(width, height int) {
	e.width, e.height = width, height
	for _, p := range []*page{&e.screen, &e.kept} {
		old := p.lines
		*p = e.blank()
		for i := range min(len(old), height) {
			copy(p.lines[i], old[i])
		}
	}
}

// write processes the output of a program. It fails on unknown sequences.
func (e *emulator) write(text string) error {
	text, e.partial = e.partial+text, ""
	for text != "" {
		rest, ok, err := e.obey(text)
		if err != nil {
			return err
		}
		if !ok {
			e.partial = text
			return nil
		}
		text = rest
	}
	return nil
}

// obey processes one character or sequence of text. ok is false if the sequence is incomplete.
func (e *emulator) obey(text string) (rest string, ok bool, err error) {
	if text[0] != '\x1b' {
		r, n := utf8.DecodeRuneInString(text)
		if !utf8.FullRuneInString(text) {
			return text, false, nil
		}
		return text[n:], true, e.put(r)
	}
	if len(text) < 2 {
		return text, false, nil
	}
	end := strings.IndexFunc(text[2:], func(r rune) bool { return r >= '@' && r <= '~' })
	if text[1] != '[' {
		return text, true, fmt.Errorf("%q is no control sequence", text[:2])
	}
	if end < 0 {
		return text, false, nil
	}
	return text[2+end+1:], true, e.control(text[2:2+end], text[2+end])
}

func (e *emulator) put(r rune) error {
	p := &e.screen
	switch {
	case r == '\r':
		p.x = 0
	case r == '\n':
		e.feed()
	case r < ' ' || r > '~' && r < 0xa0:
		return fmt.Errorf("control character %q", r)
	default:
		if p.x == e.width && e.nowrap {
			p.x--
		} else if p.x == e.width {
			p.x = 0
			e.feed()
		}
		p.lines[p.y][p.x] = r
		p.x++
	}
	return nil
}

// feed moves to the next line, and scrolls if it is at the last one.
func (e *emulator) feed() {
	p := &e.screen
	if p.y++; p.y < e.height {
		return
	}
	p.y--
	if !e.alternate {
		e.left = append(e.left, strings.TrimRight(string(p.lines[0]), " "))
	}
	p.lines = append(slices.Delete(p.lines, 0, 1), e.blankLine())
}

// control executes a control sequence (ECMA-48, 5.4).
func (e *emulator) control(parameters string, final byte) error {
	p := &e.screen
	switch string(final) + parameters {
	case "H":
		p.x, p.y = 0, 0
	case "K", "K0":
		copy(p.lines[p.y][min(p.x, e.width-1):], e.blankLine())
	case "K2":
		copy(p.lines[p.y], e.blankLine())
	case "J":
		p.x = min(p.x, e.width-1)
		for _, l := range append([][]rune{p.lines[p.y][p.x:]}, p.lines[p.y+1:]...) {
			copy(l, e.blankLine())
		}
	case "h?25", "l?25":
		e.hidden = final == 'l'
	case "h?7", "l?7":
		e.nowrap = final == 'l'
	case "h?1049":
		if !e.alternate {
			e.kept = e.screen
		}
		e.screen, e.alternate = e.blank(), true
	case "l?1049":
		if e.alternate {
			e.screen, e.alternate = e.kept, false
		}
	default:
		if _, err := strconv.Atoi(strings.ReplaceAll(parameters, ";", "")); final == 'm' &&
			(err == nil || parameters == "") {
			return nil // style
		}
		return fmt.Errorf("control sequence %q", parameters+string(final))
	}
	return nil
}

// text returns the lines on the screen without trailing blanks.
func (e *emulator) text() []string {
	var lines []string
	for _, l := range e.screen.lines {
		lines = append(lines, strings.TrimRight(string(l), " "))
	}
	return lines
}

// all returns the lines that were scrolled off the screen and those on it, without empty lines at
// the end.
func (e *emulator) all() []string {
	lines := append(slices.Clone(e.left), e.text()...)
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

func TestEmulator(t *testing.T) {
	e := newEmulator(5, 3)
	for _, piece := range []string{"one\r\ntwo and 3\r\n", "x\x1b", "[", "?1049", "h\x1b[?25l",
		"\x1b[?7l123456\x1b[1;31m\r7\x1b[m"} {
		if err := e.write(piece); err != nil {
			t.Fatal(err)
		}
	}
	if got := e.text(); !slices.Equal(got, []string{"72346", "", ""}) || !e.hidden {
		t.Errorf("alternate screen %q, cursor hidden %t", got, e.hidden)
	}
	if err := e.write("\x1b[H\x1b[2Kab\x1b[K\x1b[?7h\x1b[?25h\x1b[?1049l"); err != nil {
		t.Fatal(err)
	}
	if got := e.all(); !slices.Equal(got, []string{"one", "two a", "nd 3", "x"}) || e.hidden || e.nowrap ||
		e.alternate {
		t.Errorf("%+v: %q", e, got)
	}
	for _, unknown := range []string{"\x1bc", "\x1b[5n", "\a", "\x1b[3J"} {
		if newEmulator(5, 3).write(unknown) == nil {
			t.Errorf("%q was obeyed", unknown)
		}
	}
}
