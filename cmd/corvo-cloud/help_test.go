package main

import (
	"flag"
	"testing"

	"github.com/corvo/corvo/cmd/internal/help/helptest"
)

var rewrite = flag.Bool("rewrite", false, "rewrite golden files")

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
