package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/cmd/internal/misuse"
)

// The codes that a command which has not worked ends with.
const (
	exitFailed  = 1
	exitMisuse  = misuse.ExitCode
	exitTimeout = 3 // the time was over before it was done
)

// misusef and group have short names, for nearly every command uses them.
func misusef(format string, args ...any) error { return misuse.Errorf(format, args...) }

func group(cmd *cobra.Command) *cobra.Command { return misuse.Group(cmd) }

// timedOut is an error of what had its time and was not done in it.
type timedOut struct{ error }

func (t timedOut) Unwrap() error { return t.error }

// exitCode is what a process ends with. What the server refuses as malformed is as
// wrong as what is found wrong here.
func exitCode(err error) int {
	if misuse.Is(err) {
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
		return text + "; the endpoint is a node, not the cloud: give the cloud's URL with --endpoint, or an API key for the node with --api-key-file or CORVO_API_KEY"
	case !errors.As(err, &request):
		return text
	case errors.As(err, &dial) && dial.Op == "dial":
		return text + "; no server answers there: start a node with corvo server, or give its URL with --endpoint or CORVO_ENDPOINT"
	case errors.Is(err, context.DeadlineExceeded):
		return text + "; the server took too long and may have carried out the request: check before you repeat it"
	}
	return text
}

// withoutSecret is why a command has shown a server no secret, though its profile has
// one, where the server wants one.
func withoutSecret(cmd *cobra.Command, err error) string {
	if api.CodeOf(err) != api.Unauthorized || cmd.Flag("api-key") == nil { // corvo login asks with what it is given
		return ""
	}
	r := remoteOf(cmd)
	if r.namesSecret() { // which is not read again: stdin would be waited for
		return ""
	}
	a, _, err := r.open()
	if err != nil {
		return ""
	}
	return a.leftOut
}
