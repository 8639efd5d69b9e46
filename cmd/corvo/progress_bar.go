package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

const (
	// progressWidth is the width of a bar in characters.
	progressWidth = 30
	// progressAfter is the time before a progress bar appears.
	progressAfter = 300 * time.Millisecond
)

// progress shows a person how far long work is. It writes only to stderr on a terminal, so that no program
// reads it.
type progress struct {
	w       io.Writer // nil = not a terminal
	columns int
	since   time.Time
	shown   bool
}

func newProgress(cmd *cobra.Command) *progress {
	p := &progress{since: time.Now()}
	if f, ok := cmd.ErrOrStderr().(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.w = f
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil {
			p.columns = columns
		}
	}
	return p
}

// show prints how much of the work is done. If the total is unknown (0), it prints only text.
func (p *progress) show(done, total uint64, text string) {
	if p.w == nil || !p.shown && time.Since(p.since) < progressAfter {
		return
	}
	line := text
	if total > 0 {
		line = barText(done, total) + "  " + text
	}
	if p.columns > 0 {
		line = cut(line, p.columns-1)
	}
	fmt.Fprintf(p.w, "\r%s\x1b[K", line)
	p.shown = true
}

// clear erases the line before the outcome is printed.
func (p *progress) clear() {
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.shown = false
	}
}

// barText returns a bar and its percentage.
func barText(done, total uint64) string {
	done = min(done, total)
	full := int(float64(done) / float64(total) * progressWidth)
	return fmt.Sprintf("[%s%s] %3d%%", strings.Repeat("#", full), strings.Repeat(".", progressWidth-full), int(float64(done)/float64(total)*100))
}

// forPerson reports whether stdout is a terminal. A file counts as a program, because corvo bulk may read it,
// as it reads a pipe.
var forPerson = func() bool { return term.IsTerminal(int(os.Stdout.Fd())) }
