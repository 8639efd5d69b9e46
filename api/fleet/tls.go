package fleet

import (
	"crypto/tls"
	"errors"

	"github.com/corvo/corvo/api/fleet/certificate"
)

// These functions say which members of the fleet speak to which, over TLS with both sides verified:
//
//	host, gateway -> control plane   any process of it
//	gateway -> host                  the host and the store that a document names
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

func withoutCode(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(err.Error())
}
