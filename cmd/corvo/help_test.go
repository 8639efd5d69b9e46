package main

import (
	"strings"
	"testing"

	"github.com/corvo/corvo/cmd/internal/help"
	"github.com/corvo/corvo/cmd/internal/help/helptest"
)

// TestEveryCommandHasAnExample checks that every runnable command has an example that the command line
// accepts.
func TestEveryCommandHasAnExample(t *testing.T) {
	t.Parallel()
	helptest.Examples(t, newRoot)
}

// TestHelpFitsItsWidth checks that the help of every command fits its width and says the same at every width.
func TestHelpFitsItsWidth(t *testing.T) {
	t.Parallel()
	helptest.Widths(t, newRoot)
}

// TestHelpGolden compares the help of every command with the golden file, so that a change of it is a diff.
func TestHelpGolden(t *testing.T) {
	t.Parallel()
	helptest.Golden(t, newRoot, "testdata/help.golden", *rewrite)
}

// TestShortTextsAreShort checks that the short text of every command is a heading of at most twelve words.
func TestShortTextsAreShort(t *testing.T) {
	t.Parallel()
	helptest.Shorts(t, newRoot)
}

// TestHelpInATerminal checks that help uses the terminal's width, from 80 to 120 columns, and 80 in a pipe.
func TestHelpInATerminal(t *testing.T) {
	t.Parallel()
	piped := corvo(t, nil, "server", "--help")
	if n := longestFlagLine(piped.stdout); piped.code != 0 || n > help.MinWidth || n < help.MinWidth-20 {
		t.Errorf("in a pipe the longest line has %d columns", n)
	}
	for columns, want := range map[uint16]int{60: help.MinWidth, 80: help.MinWidth, 100: 100, 200: help.MaxWidth} {
		term := inTerminal(t, 24, columns, nil, "server", "--help")
		<-term.ended
		shown := strings.ReplaceAll(term.all(), "\r\n", "\n")
		if n := longestFlagLine(shown); n > want || n < want-15 {
			t.Errorf("in %d columns the longest line has %d, want about %d", columns, n, want)
		}
		if want == help.MinWidth && shown != piped.stdout {
			t.Errorf("in %d columns help is not that of a pipe:\n%s", columns, shown)
		}
	}
}

// longestFlagLine returns the columns of the longest line below the flags' title.
func longestFlagLine(text string) (most int) {
	_, flags, _ := strings.Cut(text, "\nFlags:\n")
	for line := range strings.Lines(flags) {
		most = max(most, len(strings.TrimRight(line, "\n")))
	}
	return most
}
