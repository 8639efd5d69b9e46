package main

import (
	"testing"

	"github.com/corvo/corvo/cmd/internal/help/helptest"
)

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
