package main

import (
	"flag"
	"testing"

	"github.com/corvo/corvo/cmd/internal/help/helptest"
)

var rewrite = flag.Bool("rewrite", false, "rewrite golden files")

// Every command that runs has an example that the command line takes.
func TestEveryCommandHasAnExample(t *testing.T) {
	t.Parallel()
	helptest.Examples(t, newRoot)
}

// The help of every command fits its width and says the same at any.
func TestHelpFitsItsWidth(t *testing.T) {
	t.Parallel()
	helptest.Widths(t, newRoot)
}

// The help of every command is that of the golden file, so that a change of it is a diff.
func TestHelpGolden(t *testing.T) {
	t.Parallel()
	helptest.Golden(t, newRoot, "testdata/help.golden", *rewrite)
}

// The short text of every command is a heading of at most twelve words.
func TestShortTextsAreShort(t *testing.T) {
	t.Parallel()
	helptest.Shorts(t, newRoot)
}
