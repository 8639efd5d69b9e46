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
	// progressWidth is how wide a bar is, in characters.
	progressWidth = 30
	// progressAfter is how long work must go on until anything is shown of it.
	progressAfter = 300 * time.Millisecond
)

// progress tells a person how far long work is: on the terminal that errors go to, and
// nowhere else, so that no program reads it.
type progress struct {
	w       io.Writer // nil = nobody watches
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

// show tells how much of the work is done; of an unknown total it tells only what text
// says.
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

// clear takes the line away: what follows is the outcome.
func (p *progress) clear() {
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.shown = false
	}
}

// barText is a bar, and how much it is full.
func barText(done, total uint64) string {
	done = min(done, total)
	full := int(float64(done) / float64(total) * progressWidth)
	return fmt.Sprintf("[%s%s] %3d%%", strings.Repeat("#", full), strings.Repeat(".", progressWidth-full), int(float64(done)/float64(total)*100))
}

// forPerson says whether what is printed is read by a person: a file is read by corvo
// bulk as a pipe is.
var forPerson = func() bool { return term.IsTerminal(int(os.Stdout.Fd())) }
