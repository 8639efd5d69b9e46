// Package misuse reports wrong use of our commands: the messages that they print and the exit code that they
// return.
package misuse

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/cmd/internal/settings"
)

// ExitCode is the exit code of a process after a malformed request. Repeating the same request does not work
// either.
const ExitCode = 2

// misuse is a fault in a command line.
type misuse struct{ error }

func (m misuse) Unwrap() error { return m.error }

// Of marks an error as a fault in the command line; nil stays nil.
func Of(err error) error {
	if err == nil {
		return nil
	}
	return misuse{err}
}

// Errorf formats an error and marks it as a fault in the command line.
func Errorf(format string, args ...any) error { return Of(fmt.Errorf(format, args...)) }

// Is reports whether an error is a fault in the command line.
func Is(err error) bool { return errors.As(err, new(misuse)) }

// Faults collects everything that is wrong with settings.
type Faults []error

// Refuse adds a fault with the formatted text unless ok is true.
func (f *Faults) Refuse(ok bool, format string, args ...any) {
	if !ok {
		*f = append(*f, fmt.Errorf(format, args...))
	}
}

// Err returns all faults as one misuse; nil if there are none.
func (f Faults) Err() error { return Of(errors.Join(f...)) }

// Group completes a command that only has subcommands. It refuses an unknown word, because Cobra by itself
// would print the help and report success.
func Group(cmd *cobra.Command) *cobra.Command {
	cmd.DisableFlagsInUseLine = true
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			for _, below := range cmd.Commands() {
				if below.Use == "list" || below.Use == "get" {
					return below.RunE(cmd, nil) // the noun by itself shows its resources
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

// Completion adds the completion command to a root and makes it a group like the others.
func Completion(root *cobra.Command) {
	root.InitDefaultCompletionCmd("")
	if cmd, _, err := root.Find([]string{"completion"}); err == nil && cmd != root {
		Group(cmd)
	}
}

// Version adds the flag --version to a root; it prints the same as the command version.
func Version(root *cobra.Command, version string) {
	root.Version = version
	root.SetVersionTemplate("{{.Version}}\n")
}

// Strict marks the faults that a command and its subcommands find in their flags and arguments.
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
