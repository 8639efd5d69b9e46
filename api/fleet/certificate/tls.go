package certificate

import (
	"crypto/tls"
	"crypto/x509"
	"slices"

	"github.com/corvo/corvo/api"
)

// Accept decides which members may be at the other end of a connection. It returns an UNAUTHORIZED error for
// the others.
type Accept func(Identity) error

// Only accepts exactly one member. It compares the kind, the id and the store.
func Only(want Identity) Accept {
	return func(got Identity) error {
		if got != want {
			return api.Errorf(api.Unauthorized, "%s is at the other end, where %s was expected: has its address been given to another?", got, want)
		}
		return nil
	}
}

// Any accepts every member of the given kinds.
func Any(kinds ...Kind) Accept {
	return func(got Identity) error {
		if !slices.Contains(kinds, got.Kind) {
			return api.Errorf(api.Unauthorized, "%s is at the other end, where only these kinds of members may be: %v: has the address of one part been given to another?", got, kinds)
		}
		return nil
	}
}

// Server returns the configuration for connections that only accepted members may open.
func (h *Holder) Server(accept Accept) *tls.Config {
	c := h.JoinServer(accept)
	c.ClientAuth = tls.RequireAnyClientCert
	return c
}

// JoinServer returns the configuration of the control plane. It also lets in clients that show no
// certificate, because a member shows none when it joins. It verifies the certificate of a client that
// shows one. PeerOf tells whether the client did.
func (h *Holder) JoinServer(accept Accept) *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS13,
		Time:           h.cfg.Now,
		ClientAuth:     tls.RequestClientCert,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return h.certificate() },
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 {
				return nil // Server's ClientAuth has refused such a client already
			}
			return h.verify(s, x509.ExtKeyUsageClientAuth, accept)
		},
		SessionTicketsDisabled: true, // a resumed session would not be verified again
	}
}

// Client returns the configuration for connections that must lead to an accepted member.
func (h *Holder) Client(accept Accept) *tls.Config {
	c := clientConfig(h.cfg)
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return h.certificate() }
	c.VerifyConnection = func(s tls.ConnectionState) error { return h.verify(s, x509.ExtKeyUsageServerAuth, accept) }
	return c
}

// JoinClient returns the configuration for joins. The member shows no certificate, because the control plane
// would refuse an expired one. The member trusts the control plane by its bundle, and before the first join
// by the root with the fingerprint Config.FleetRoot. With a bundle the fingerprint does not count, because it
// may be that of a root that was replaced.
func (h *Holder) JoinClient() *tls.Config {
	c := clientConfig(h.cfg)
	c.VerifyConnection = func(s tls.ConnectionState) error {
		trusted, err := h.joinBundle(s.PeerCertificates)
		if err != nil {
			return err
		}
		if err := h.checkReplaced(s.PeerCertificates, trusted); err != nil {
			return err
		}
		return verifyPeer(s, trusted, x509.ExtKeyUsageServerAuth, h.cfg, Any(ControlPlane))
	}
	return c
}

// checkReplaced refuses a control plane whose certificate no root of this member's bundle has issued. The error says how
// an operator gives the member a new root, because the member may have been away while the root was replaced. The member
// never trusts a root that only the other side shows.
func (h *Holder) checkReplaced(chain []*x509.Certificate, trusted Bundle) error {
	if len(chain) == 0 || trusted.issuer(chain[0]) != nil {
		return nil
	}
	return api.Errorf(api.Unauthorized, "the certificate of the control plane is of another fleet: none of the roots that this %s trusts (%s) issued it; "+
		"if the fleet's root was replaced while this %s was away, remove %s and start with --fleet-root and the SHA-256 that `corvo cloud fleet-roots list` prints",
		h.cfg.Kind, trusted, h.cfg.Kind, h.cfg.Path)
}

// joinBundle returns this member's bundle. Before the first join it returns the root of the control plane's chain that
// has the fingerprint FleetRoot.
func (h *Holder) joinBundle(chain []*x509.Certificate) (Bundle, error) {
	if m := h.Member(); m != nil {
		return m.Bundle, nil
	}
	shown := []string{}
	for _, c := range chain {
		if !c.IsCA {
			continue
		}
		if fingerprint(c) == h.cfg.FleetRoot {
			return NewBundle(c.Raw)
		}
		shown = append(shown, fingerprint(c))
	}
	return Bundle{}, api.Errorf(api.Unauthorized, "the control plane shows the root %q, and --fleet-root is %q: compare it with the one that `corvo-cloud server` prints", shown, h.cfg.FleetRoot)
}

// clientConfig returns the part that all clients' configurations share.
func clientConfig(cfg Config) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		Time:       cfg.Now,
		// VerifyConnection makes all checks. The standard ones would compare a DNS name, and a member has none.
		InsecureSkipVerify: true,
	}
}

// certificate returns the newest certificate, so that the next handshake uses a replacement. It refuses a
// certificate that is not valid now.
func (h *Holder) certificate() (*tls.Certificate, error) {
	m := h.Member()
	if m == nil {
		return nil, errNotJoined(h.cfg.Kind)
	}
	if stage := m.StageAt(h.cfg.Now()); stage == Expired || stage == NotYetValid {
		return nil, errNotValidNow(m.Identity, m.leaf, h.cfg.Now())
	}
	return m.tls(), nil
}

func errNotJoined(kind Kind) *api.Error {
	return api.Errorf(api.Unauthorized, "this %s has no certificate yet: it has not joined the fleet", kind)
}

// verify checks the other side against the newest bundle.
func (h *Holder) verify(s tls.ConnectionState, use x509.ExtKeyUsage, accept Accept) error {
	m := h.Member()
	if m == nil {
		return api.Errorf(api.Unauthorized, "this %s trusts nobody yet: it has not joined the fleet", h.cfg.Kind)
	}
	return verifyPeer(s, m.Bundle, use, h.cfg, accept)
}

// verifyPeer checks that the other side is an accepted member that the bundle trusts.
func verifyPeer(s tls.ConnectionState, trusted Bundle, use x509.ExtKeyUsage, cfg Config, accept Accept) error {
	if len(s.PeerCertificates) == 0 {
		return api.Errorf(api.Unauthorized, "the other side showed no certificate")
	}
	member, err := trusted.verify(s.PeerCertificates[0], use, cfg.Now())
	if err != nil {
		return err
	}
	return accept(member)
}

// PeerOf returns the member at the other end of a connection that a configuration of a Holder has verified, or false if
// the other side showed no certificate.
func PeerOf(s *tls.ConnectionState) (Identity, bool) {
	if s == nil || len(s.PeerCertificates) == 0 {
		return Identity{}, false
	}
	i, err := identityOf(s.PeerCertificates[0])
	return i, err == nil
}
