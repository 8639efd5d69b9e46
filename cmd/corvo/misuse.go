package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/cmd/internal/settings"
)

// The codes that a command which has not worked ends with.
const (
	exitFailed  = 1
	exitMisuse  = 2 // what was asked for is malformed: the same again does not work either
	exitTimeout = 3 // the time was over before it was done
)

// misuse is an error of who wrote the command line.
type misuse struct{ error }

func (m misuse) Unwrap() error { return m.error }

func misusef(format string, args ...any) error { return misuse{fmt.Errorf(format, args...)} }

// timedOut is an error of what had its time and was not done in it.
type timedOut struct{ error }

func (t timedOut) Unwrap() error { return t.error }

// exitCode is what a process ends with. What the server refuses as malformed is as
// wrong as what is found wrong here.
func exitCode(err error) int {
	var m misuse
	if errors.As(err, &m) {
		return exitMisuse
	}
	var late timedOut
	if errors.As(err, &late) || errors.Is(err, context.DeadlineExceeded) {
		return exitTimeout
	}
	switch api.CodeOf(err).Status() {
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return exitMisuse
	}
	return exitFailed
}

// advice is what an error says and, where the error comes from far below, what to do.
func advice(err error) string {
	text := oneLine(err)
	var request *url.Error
	var dial *net.OpError
	var answer *api.Error
	switch {
	case errors.As(err, &answer) && strings.HasPrefix(answer.Message, "no route ") && strings.Contains(answer.Message, " /cloud/v1/"):
		return text + "; that endpoint is a node and not the cloud: a node has no login and takes an API key, with --api-key-file or CORVO_API_KEY; where the cloud is, --endpoint says"
	case !errors.As(err, &request):
		return text
	case errors.As(err, &dial) && dial.Op == "dial":
		return text + "; nobody answers there: start a node with corvo server, or say where one is with --endpoint or CORVO_ENDPOINT"
	case errors.Is(err, context.DeadlineExceeded):
		return text + "; the server took too long, and what it was asked for may have been done: look before you ask again"
	}
	return text
}

// group is a command that only has others below it. Cobra by itself would take a
// word it does not know for a wish for help, and call that a success.
func group(cmd *cobra.Command) *cobra.Command {
	cmd.DisableFlagsInUseLine = true
	cmd.Args = cobra.ArbitraryArgs
	cmd.SuggestionsMinimumDistance = 2
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			if list, _, err := cmd.Find([]string{"list"}); err == nil && list != cmd {
				return list.RunE(cmd, nil) // the noun by itself shows what there is
			}
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
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return hint(cmd, settings.Unreadable("", err)) })
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error { return hint(cmd, check(cmd, args)) }
	}
	for _, below := range cmd.Commands() {
		strict(below)
	}
}
