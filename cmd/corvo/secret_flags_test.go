package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestNoFlagTakesASecret checks that secrets come from files and the environment, because all users of a
// machine can read arguments in the process list, and the shell's history keeps them. --api-key is the
// documented exception, beside a flag that takes a file.
func TestNoFlagTakesASecret(t *testing.T) {
	t.Parallel()
	secret := regexp.MustCompile(`(?i)secret|passw|token|api-?key|credential|private-key`)
	var walk func(cmd *cobra.Command)
	seen := 0
	check := func(cmd *cobra.Command) func(*pflag.Flag) {
		return func(f *pflag.Flag) {
			seen++
			switch {
			case !secret.MatchString(f.Name) || strings.HasSuffix(f.Name, "-file") || f.Value.Type() == "duration" || f.Value.Type() == "file":
			case f.Name == "api-key" && cmd.Flag("api-key-file") != nil:
			case f.Value.Type() == "n": // counts of tokens
			default:
				t.Errorf("%s --%s (%s): is that a secret? Read it from a file", cmd.CommandPath(), f.Name, f.Value.Type())
			}
		}
	}
	walk = func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(check(cmd))
		cmd.PersistentFlags().VisitAll(check(cmd))
		for _, below := range cmd.Commands() {
			walk(below)
		}
	}
	walk(newRoot())
	if seen < 100 {
		t.Errorf("saw %d flags", seen)
	}
}
