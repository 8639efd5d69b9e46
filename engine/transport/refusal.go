package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/corvo/corvo/api"
)

// ErrRefused is the cause of errors of a peer that was reached and not spoken
// with, because one of the two does not accept the other: its certificate, its ID
// or its version of the protocol. It is there again at the next attempt, unless
// somebody does something. Without it the peer was not reached.
var ErrRefused = errors.New("refused")

// refusal makes the error of a handshake tell the two apart. A certificate that is
// not accepted is UNAUTHORIZED, at whichever end.
func refusal(err error) error {
	var network *net.OpError
	var ours *tls.CertificateVerificationError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.As(err, &ours):
		return fmt.Errorf("%w: %w", ErrRefused, api.Errorf(api.Unauthorized, "its certificate is not accepted: both must be of one cluster, and their clocks right (%w)", err))
	case !errors.As(err, &network):
		return fmt.Errorf("%w: %w", ErrRefused, err)
	case network.Op == "remote error": // as crypto/tls names the peer's alerts
		return fmt.Errorf("%w: %w", ErrRefused, api.Errorf(api.Unauthorized, "it does not accept this node's certificate: both must be of one cluster, and their clocks right (%w)", err))
	}
	return err
}
