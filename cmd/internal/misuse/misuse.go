// Package misuse is how our commands answer who calls them wrongly: what they say, and
// the code they end with.
package misuse

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/cmd/internal/settings"
)

// ExitCode is what a process ends with when what it was asked for is malformed: the same
// again does not work either.
const ExitCode = 2

// misuse is an error of who wrote the command line.
type misuse struct{ error }

func (m misuse) Unwrap() error { return m.error }

// Of marks an error as one of who wrote the command line; nil stays nil.
func Of(err error) error {
	if err == nil {
		return nil
	}
	return misuse{err}
}

// Errorf is Of an error with that text.
func Errorf(format string, args ...any) error { return Of(fmt.Errorf(format, args...)) }

// Is says whether an error is one of who wrote the command line.
func Is(err error) bool { return errors.As(err, new(misuse)) }

// Faults collects everything that is wrong with settings.
type Faults []error

// Refuse adds what is to be said where a setting is not ok.
func (f *Faults) Refuse(ok bool, format string, args ...any) {
	if !ok {
		*f = append(*f, fmt.Errorf(format, args...))
	}
}

// Err is all of them as one misuse; nil where nothing is wrong.
func (f Faults) Err() error { return Of(errors.Join(f...)) }

// Group is a command that only has others below it. Cobra by itself would take a
// word it does not know for a wish for help, and call that a success.
func Group(cmd *cobra.Command) *cobra.Command {
	cmd.DisableFlagsInUseLine = true
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			for _, below := range cmd.Commands() {
				if below.Use == "list" || below.Use == "get" {
					return below.RunE(cmd, nil) // the noun by itself shows what there is
				}
			}
			return cmd.Help()
		}
		hint := "see " + cmd.CommandPath() + " --help"
		if near := nearCommand(cmd, args[0]); near != "" {
			hint = "is it " + near + "?"
		}
		return Errorf("there is no command %q in %s; %s", args[0], cmd.CommandPath(), hint)
	}
	return cmd
}

// Completion gives a root its completion command, which is a group as others are.
func Completion(root *cobra.Command) {
	root.InitDefaultCompletionCmd("")
	if cmd, _, err := root.Find([]string{"completion"}); err == nil && cmd != root {
		Group(cmd)
	}
}

// Version gives a root the flag --version, which prints what its command version
// prints.
func Version(root *cobra.Command, version string) {
	root.Version = version
	root.SetVersionTemplate("{{.Version}}\n")
}

// Strict marks what a command and those below it find wrong with their flags and
// arguments.
func Strict(cmd *cobra.Command) {
	hint := func(cmd *cobra.Command, err error) error {
		if err == nil {
			return nil
		}
		return Errorf("%w; see %s --help", err, cmd.CommandPath())
	}
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if near := nearFlag(cmd, err); near != "" {
			err = fmt.Errorf("%w, is it --%s?", err, near)
		}
		return hint(cmd, settings.Unreadable("", err))
	})
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error { return hint(cmd, check(cmd, args)) }
	}
	for _, below := range cmd.Commands() {
		Strict(below)
	}
}
