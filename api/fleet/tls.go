package fleet

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet/certificate"
)

// These functions say which members of the fleet speak to which, over TLS with both sides verified:
//
//	host, gateway -> control plane   any process of it
//	gateway -> host                  the host and the store that a document names
//	host -> host                     any host with the store that is called; the groups decide what it may send
//
// A certificate only proves an identity. Service tokens and documents say what the member may do.

// ControlPlaneServer returns the configuration of a process of the control plane. It lets in hosts and gateways, and
// clients without a certificate: members that join, and the programs of operators.
func ControlPlaneServer(held *certificate.Holder) *tls.Config {
	return held.JoinServer(certificate.Any(certificate.Host, certificate.Gateway))
}

// ControlPlaneClient returns the configuration of a member for all requests to the control plane but joins.
func ControlPlaneClient(held *certificate.Holder) *tls.Config {
	return codeless(held.Client(certificate.Any(certificate.ControlPlane)))
}

// joinClient returns the configuration of a member that joins.
func joinClient(held *certificate.Holder) *tls.Config { return codeless(held.JoinClient()) }

// HostServer returns the configuration of a host. It lets in gateways only.
func HostServer(held *certificate.Holder) *tls.Config {
	return held.Server(certificate.Any(certificate.Gateway))
}

// HostClient returns the configuration of a gateway for requests to one host with one store.
func HostClient(held *certificate.Holder, host, store string) *tls.Config {
	return codeless(held.Client(certificate.Only(certificate.Identity{Kind: certificate.Host, ID: host, Store: store})))
}

// HostPeer is a host's side of the connections between the Raft members on different hosts. The id of a node there is
// the id of its store.
type HostPeer struct{ held *certificate.Holder }

// NewHostPeer returns the side of the host with a certificate. Until the host has joined, each handshake fails.
func NewHostPeer(held *certificate.Holder) HostPeer { return HostPeer{held} }

// Server returns the configuration for accepted connections. It lets in hosts only.
func (p HostPeer) Server() *tls.Config { return p.held.Server(certificate.Any(certificate.Host)) }

// Client returns the configuration for connections to the host with a store, or with "" to any host.
func (p HostPeer) Client(store string) *tls.Config {
	return p.held.Client(func(got certificate.Identity) error {
		if err := certificate.Any(certificate.Host)(got); err != nil {
			return err
		}
		if store != "" && got.Store != store {
			return api.Errorf(api.Unauthorized, "%s is at the other end, where store %s was expected: has its address been given to another?", got, store)
		}
		return nil
	})
}

// NodeID returns the store in a certificate that one of the configurations has verified.
func (p HostPeer) NodeID(c *x509.Certificate) string { return certificate.StoreOf(c) }

// codeless removes the code from the errors of a client's handshakes. They are UNAUTHORIZED, and in a response that
// code would mean that the server refuses the caller's credential: a member would join again, and a
// tenant's worker would give up.
func codeless(c *tls.Config) *tls.Config {
	verify, show := c.VerifyConnection, c.GetClientCertificate
	c.VerifyConnection = func(s tls.ConnectionState) error { return withoutCode(verify(s)) }
	if show != nil {
		c.GetClientCertificate = func(r *tls.CertificateRequestInfo) (*tls.Certificate, error) {
			shown, err := show(r)
			return shown, withoutCode(err)
		}
	}
	return c
}

// explained adds words to the error of a request if the control plane has refused this member's certificate. In TLS 1.3 the
// member learns of that after its own handshake, by an alert without a reason.
func explained(err error) error {
	var network *net.OpError
	if errors.As(err, &network) && network.Op == "remote error" { // crypto/tls uses this name for the peer's alerts
		return fmt.Errorf("the control plane refuses this member's certificate, and its log says why: %w", err)
	}
	return err
}

func withoutCode(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(err.Error())
}
