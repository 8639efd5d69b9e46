package main

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api"
)

// The codes that a command which has not worked ends with.
const (
	exitFailed = 1
	exitMisuse = 2 // what was asked for is malformed: the same again does not work either
)

// misuse is an error of who wrote the command line.
type misuse struct{ error }

func (m misuse) Unwrap() error { return m.error }

func misusef(format string, args ...any) error { return misuse{fmt.Errorf(format, args...)} }

// exitCode is what a process ends with. What the server refuses as malformed is as
// wrong as what is found wrong here.
func exitCode(err error) int {
	var m misuse
	if errors.As(err, &m) {
		return exitMisuse
	}
	switch api.CodeOf(err).Status() {
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return exitMisuse
	}
	return exitFailed
}

// group is a command that only has others below it. Cobra by itself would take a
// word it does not know for a wish for help, and call that a success.
func group(cmd *cobra.Command) *cobra.Command {
	cmd.DisableFlagsInUseLine = true
	cmd.Args = cobra.ArbitraryArgs
	cmd.SuggestionsMinimumDistance = 2
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		hint := cmd.CommandPath() + " --help shows all"
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			hint = "is it " + near[0] + "?"
		}
		return misusef("there is no command %q in %s; %s", args[0], cmd.CommandPath(), hint)
	}
	return cmd
}

// strict marks what a command and those below it find wrong with their flags and
// arguments.
func strict(cmd *cobra.Command) {
	hint := func(cmd *cobra.Command, err error) error {
		if err == nil {
			return nil
		}
		return misusef("%w; %s --help says what there is", err, cmd.CommandPath())
	}
	cmd.SetFlagErrorFunc(hint)
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error { return hint(cmd, check(cmd, args)) }
	}
	for _, below := range cmd.Commands() {
		strict(below)
	}
}
