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

// ErrRefused is wrapped by errors about a peer that was reached, if one of the two nodes refused the other
// because of its certificate, its ID or its protocol version. The next attempt usually fails too, until an
// operator acts. An error without ErrRefused means that the peer was not reached or did not answer.
var ErrRefused = errors.New("refused")

// refusal classifies an error of a handshake. If either end does not accept the other's certificate, the
// error is UNAUTHORIZED.
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
	case network.Op == "remote error": // crypto/tls uses this name for the peer's alerts
		return fmt.Errorf("%w: %w", ErrRefused, api.Errorf(api.Unauthorized, "it does not accept this node's certificate: both must be of one cluster, and their clocks right (%w)", err))
	}
	return err
}
