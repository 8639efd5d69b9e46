package certificate

import (
	"crypto/x509"
	"errors"
	"time"

	"github.com/corvo/corvo/api"
)

// verify checks that a root of the bundle issued a certificate, that the certificate is for the given use and
// that it is valid now. It returns the identity of the member. Every error is UNAUTHORIZED.
func (b Bundle) verify(c *x509.Certificate, use x509.ExtKeyUsage, now time.Time) (Identity, error) {
	member, err := identityOf(c)
	if err != nil {
		return Identity{}, err
	}
	if b.issuer(c) == nil {
		return Identity{}, api.Errorf(api.Unauthorized, "the certificate of %s is of another fleet: no root of this fleet (%s) issued it; "+
			"correct the address if it leads to another fleet, or else remove the member's %s and start the member with --fleet-root", member, b, FileName)
	}
	_, err = c.Verify(x509.VerifyOptions{Roots: b.pool(), CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{use}})
	var invalid x509.CertificateInvalidError
	switch {
	case err == nil:
		return member, nil
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return Identity{}, errNotValidNow(member, invalid.Cert, now)
	}
	return Identity{}, api.Wrap(err, api.Unauthorized, "the certificate of "+member.String()+" is refused: "+err.Error())
}

// errNotValidNow refuses a certificate because of the time. Its text names the control plane's clock and this
// machine's, because either may be wrong.
func errNotValidNow(member Identity, c *x509.Certificate, now time.Time) *api.Error {
	const form = time.RFC3339
	subject := "the certificate of " + member.String()
	if c.IsCA {
		subject = "the root " + fingerprint(c)
	}
	if now.Before(c.NotBefore) {
		return api.Errorf(api.Unauthorized, "%s is valid from %s by the control plane's clock, and it is %s by the clock of this machine: set the clocks of both",
			subject, c.NotBefore.UTC().Format(form), now.UTC().Format(form))
	}
	return api.Errorf(api.Unauthorized, "%s was valid until %s by the control plane's clock, and it is %s by the clock of this machine: let its member reach the control plane, which renews it, or set the clocks of both",
		subject, c.NotAfter.UTC().Format(form), now.UTC().Format(form))
}
