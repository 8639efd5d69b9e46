// Package token is the service tokens by which control plane, gateways and hosts
// trust each other: short-lived Ed25519 JWTs, checked against a JWKS, and the
// detached signature of documents that outlive a connection. It stores no keys,
// reads no clock and no randomness but what it is given.
package token

import (
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/corvo/corvo/api"
)

// Issuer is the iss of every service token.
const Issuer = "corvo-control-plane"

// The audiences.
const (
	ControlPlane = "control-plane" // hosts and gateways to the control plane
	Hosts        = "hosts"         // gateways to any host
)

// Lifetime is how long a token is good for; who holds one renews it at half.
const Lifetime = 15 * time.Minute

// Leeway is how far the clocks of two processes may differ.
const Leeway = 30 * time.Second

// MaxTokenBytes bounds the text that is looked at; ours have some 350 bytes.
const MaxTokenBytes = 2048

// Outage is how long the planes' processes go on trusting each other by their last
// tokens while the control plane is away.
const Outage = 7 * 24 * time.Hour

// Claims are what a token says.
type Claims struct {
	Subject  string // the id of the host or gateway
	Role     string // a tenancy.Role of the fleet
	Audience string
	Expires  time.Time // set by Sign from now and Lifetime
}

// algorithm is the only one there is: what a token's header asks for is compared
// with it, never followed.
const algorithm = "EdDSA"

// What a caller is told. Why exactly a token is refused it learns only as far as
// it can mend it: the rest is the cause, for the log.
const (
	refused = "the service token is not valid: join the control plane again for a new one"
	expired = "the service token has expired: join the control plane again for a new one"
)

// claims are Claims as they stand in a token.
type claims struct {
	Role string `json:"role"`
	jwt.RegisteredClaims
}

// Sign makes a token that is good for Lifetime from now on, to the second. It
// refuses claims that no Verify would take.
func Sign(k Key, c Claims, now time.Time) (string, error) {
	if err := k.validate(); err != nil {
		return "", err
	}
	if c.Subject == "" || c.Role == "" || c.Audience == "" {
		return "", errors.New("a service token needs a subject, a role and an audience")
	}
	t := jwt.NewWithClaims(jwt.SigningMethodEdDSA, claims{
		Role: c.Role,
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer:    Issuer,
			Subject:   c.Subject,
			Audience:  jwt.ClaimStrings{c.Audience},
			IssuedAt:  jwt.NewNumericDate(now),
			ExpiresAt: jwt.NewNumericDate(now.Add(Lifetime)),
		},
	})
	t.Header["kid"] = k.ID
	text, err := t.SignedString(k.Private)
	if err != nil {
		return "", fmt.Errorf("sign a service token: %w", err)
	}
	return text, nil
}

// Verify checks a token for an audience and answers what it says. A token is good
// until Leeway after its expiry, exclusive. Every failure is an *api.Error
// UNAUTHORIZED; errors.Is(err, ErrUnknownKey) when a newer set might know better.
func (s Set) Verify(text, audience string, now time.Time) (Claims, error) {
	return s.verify(text, audience, now, Leeway)
}

// VerifyCutOff is Verify for a process that cannot reach the control plane itself:
// nobody may be able to renew tokens, so one is good until Outage after its expiry.
func (s Set) VerifyCutOff(text, audience string, now time.Time) (Claims, error) {
	return s.verify(text, audience, now, Outage)
}

func (s Set) verify(text, audience string, now time.Time, leeway time.Duration) (Claims, error) {
	if audience == "" || len(text) > MaxTokenBytes {
		return Claims{}, api.Errorf(api.Unauthorized, refused)
	}
	parser := jwt.NewParser(
		jwt.WithValidMethods([]string{algorithm}),
		jwt.WithIssuer(Issuer),
		jwt.WithAudience(audience),
		jwt.WithExpirationRequired(),
		jwt.WithIssuedAt(),
		jwt.WithLeeway(leeway),
		jwt.WithTimeFunc(func() time.Time { return now }),
		jwt.WithStrictDecoding(),
	)
	var c claims
	_, err := parser.ParseWithClaims(text, &c, func(t *jwt.Token) (any, error) {
		id, _ := t.Header["kid"].(string)
		key, ok := s.keys[id]
		if !ok {
			return nil, ErrUnknownKey
		}
		return key, nil
	})
	switch {
	case errors.Is(err, jwt.ErrTokenExpired):
		return Claims{}, api.Wrap(err, api.Unauthorized, expired)
	case err != nil:
		return Claims{}, api.Wrap(err, api.Unauthorized, refused)
	case c.Subject == "" || c.Role == "":
		return Claims{}, api.Errorf(api.Unauthorized, refused)
	}
	return Claims{Subject: c.Subject, Role: c.Role, Audience: audience, Expires: c.ExpiresAt.Time}, nil
}
