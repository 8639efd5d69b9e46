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
