package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/cmd/internal/misuse"
)

// The exit codes of a failed command.
const (
	exitFailed  = 1
	exitMisuse  = misuse.ExitCode
	exitTimeout = 3 // the command ran out of time
)

// misusef and group have short names, because dozens of places use them.
func misusef(format string, args ...any) error { return misuse.Errorf(format, args...) }

func group(cmd *cobra.Command) *cobra.Command { return misuse.Group(cmd) }

// timedOut is an error of a command that ran out of time.
type timedOut struct{ error }

func (t timedOut) Unwrap() error { return t.error }

// exitCode returns the exit code for an error. A request that the server answers with 400 or 422 counts as
// misuse, like a mistake that the command finds itself.
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

// advice returns an error's text and, for a wrong endpoint, another or no leader, a failed connection or a timeout, the
// next step for the user.
func advice(err error) string {
	text := oneLine(err)
	var request *url.Error
	var dial *net.OpError
	var answer *api.Error
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var named x509.HostnameError
	switch {
	case errors.As(err, &answer) && answer.Code == api.LeaderUnavailable && answer.Details["leader_addr"] != nil:
		return oneLine(fmt.Errorf("%w; the leader is at %v", err, answer.Details["leader_addr"]))
	case errors.As(err, &answer) && answer.Code == api.LeaderUnavailable:
		return text + "; if this lasts, read /readyz of the endpoint and the log of its server"
	case errors.As(err, &answer) && strings.HasPrefix(answer.Message, "no route ") && strings.Contains(answer.Message, " /cloud/v1/"):
		return text + "; the endpoint is a node, not the cloud: give the URL of the cloud's gateway or control plane with --endpoint, or an API key for the node with --api-key-file or CORVO_API_KEY"
	case !errors.As(err, &request):
		return text
	case errors.As(err, &dial) && dial.Op == "dial":
		return text + "; no server answers there: start a node with corvo server, or give its URL with --endpoint or CORVO_ENDPOINT"
	case errors.As(err, &unknown):
		return text + "; for a control plane set SSL_CERT_FILE to the fleet-root.pem of its data directory, or use a gateway"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return text + "; set the clock of this machine, or of the server, which renews its certificate by itself if it is a process of the control plane with a quorum"
	case errors.As(err, &named):
		return text + "; use a name or address of the certificate, or for a control plane start its process with this one in --advertise"
	case errors.Is(err, context.DeadlineExceeded):
		return text + "; the server took too long and may have carried out the request: check before you repeat it"
	}
	return text
}

// withoutSecret explains why a command did not send the secrets of its profile, if the server answered
// UNAUTHORIZED. It returns "" if the command sent a secret or the profile has none.
func withoutSecret(cmd *cobra.Command, err error) string {
	if api.CodeOf(err) != api.Unauthorized || cmd.Flag("api-key") == nil { // a command without the flag, such as corvo login, sends no secret of a profile
		return ""
	}
	r := remoteOf(cmd)
	if r.namesSecret() { // the command sent another secret than the profile's
		return ""
	}
	a, _, err := r.open()
	if err != nil {
		return ""
	}
	return a.leftOut
}
