package fleet

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/corvo/corvo/api/fleet/certificate"
)

// roots is what a member knows of the fleet's roots besides its certificate.
type roots struct {
	mu     sync.Mutex // held while the certificate or its bundle is replaced
	notice int        // number of notices of roots that streams have brought
	told   trust      // in the last successful join
}

// trust is what a member reports of its certificate when it joins.
type trust struct {
	roots  []string // fingerprints
	issuer string   // fingerprint of the root of the certificate; "" = there is no certificate
}

func (t trust) equal(other trust) bool {
	return t.issuer == other.issuer && slices.Equal(t.roots, other.roots)
}

// trustOf returns what the member reports now.
func trustOf(c *certificate.Holder) (t trust) {
	t.roots, t.issuer = c.Trust()
	return t
}

// askForCertificate adds to a request to join what the control plane must know of this member's certificate. It returns
// the number of notices of roots so far.
func (m *Member) askForCertificate(request *JoinRequest) (notices int, err error) {
	c := m.config.Certificate
	if c == nil {
		return 0, nil
	}
	m.roots.mu.Lock()
	defer m.roots.mu.Unlock()
	t := trustOf(c)
	request.Roots, request.Issuer = t.roots, t.issuer
	request.CSR, err = c.Request()
	return m.roots.notice, err
}

// takeCertificate stores the certificate and the bundle of the answer to a join. If a stream has brought other roots
// since the request, they are newer than those of the answer and stay. news tells that the member must join again, because it now
// has roots or an issuer that the request did not report. The first join needs no report: whoever has a certificate
// from its answer trusts the roots of the answer.
func (m *Member) takeCertificate(request JoinRequest, a JoinAnswer, notices int) (news bool, err error) {
	c := m.config.Certificate
	if c == nil {
		return false, nil
	}
	m.roots.mu.Lock()
	defer m.roots.mu.Unlock()
	if held := c.Member(); held != nil && m.roots.notice != notices {
		a.Roots = held.Bundle
	}
	if err := m.keepCertificate(c, a); err != nil {
		return false, err
	}
	now := trustOf(c)
	m.roots.told = trust{request.Roots, request.Issuer}
	if request.Issuer == "" {
		m.roots.told = now
	}
	return !m.roots.told.equal(now), nil
}

// keepCertificate stores the certificate and the bundle of the answer to a join. If that fails, such as on a
// full disk, and the present certificate is still valid, keepCertificate logs the error and the member goes
// on with that certificate, because without tokens the member would lose the control plane at once.
// Holder.Health warns when the certificate's end is near.
func (m *Member) keepCertificate(c *certificate.Holder, a JoinAnswer) error {
	err := c.Accept(a.ID, a.Certificate, a.Roots)
	if held := c.Member(); held == nil || held.Identity.ID != a.ID || c.Stage() == certificate.Expired {
		return err
	}
	m.renewal.note(err)
	return nil
}

// takeRoots keeps the roots that a stream has brought. If the member then must report them, or needs a certificate of the
// root that signs now, it joins soon. If the roots cannot be kept, such as on a full disk, the next join brings them again.
func (m *Member) takeRoots(msg Message) {
	c := m.config.Certificate
	if c == nil || msg.Roots == nil {
		return
	}
	m.roots.mu.Lock()
	defer m.roots.mu.Unlock()
	held := c.Member()
	if held == nil {
		return
	}
	m.roots.notice++
	m.renewal.note(c.Accept(held.Identity.ID, nil, *msg.Roots))
	now := trustOf(c)
	renews := msg.Signer != "" && now.issuer != msg.Signer
	if renews {
		c.Renew()
	}
	if renews || !now.equal(m.roots.told) {
		within := max(time.Duration(msg.WithinMs)*time.Millisecond, 1)
		time.AfterFunc(rand.N(within), func() { m.refused(m.Token()) })
	}
}
