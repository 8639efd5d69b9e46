// Package token signs and verifies the service tokens that control plane, gateways and hosts present to each
// other. They are short-lived Ed25519 JWTs, checked against a JWKS. The package also makes detached
// signatures of documents that outlive a connection. It stores no keys. Clock and randomness are arguments.
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

// Lifetime is the time from a token's issue to its expiry. The holder renews a token after half of it.
const Lifetime = 15 * time.Minute

// Leeway is the difference between the clocks of two processes that Verify tolerates.
const Leeway = 30 * time.Second

// MaxTokenBytes is the largest text that Verify parses. Our tokens have about 350 bytes.
const MaxTokenBytes = 2048

// Outage is the time that hosts and gateways add to the expiry of each other's last tokens while the control
// plane is down.
const Outage = 7 * 24 * time.Hour

// Claims are the contents of a token.
type Claims struct {
	Subject  string // the id of the host or gateway
	Role     string // a tenancy.Role of a host or gateway
	Audience string
	Run      int64     // of the host's process: see fleet.JoinAnswer; 0 for a gateway
	Expires  time.Time // Sign sets it to now plus Lifetime
}

// algorithm is the only accepted one. The header of a token is compared with it and never selects
// another.
const algorithm = "EdDSA"

// The messages of refusals. A caller learns only a reason that it can act on. The full reason is the cause of
// the error, for the log.
const (
	refused = "the service token is not valid: join the control plane again for a new one"
	expired = "the service token has expired: join the control plane again for a new one"
)

// claims is the JWT form of Claims.
type claims struct {
	Role string `json:"role"`
	Run  int64  `json:"run,omitempty"`
	jwt.RegisteredClaims
}

// Sign returns a token that expires Lifetime after now, to the second. It refuses claims without a subject, a role
// or an audience, which Verify would not accept. It ignores c.Expires.
func Sign(k Key, c Claims, now time.Time) (string, error) {
	if err := k.validate(); err != nil {
		return "", err
	}
	if c.Subject == "" || c.Role == "" || c.Audience == "" {
		return "", errors.New("a service token needs a subject, a role and an audience")
	}
	t := jwt.NewWithClaims(jwt.SigningMethodEdDSA, claims{
		Role: c.Role,
		Run:  c.Run,
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

// Verify checks a token for an audience and returns its claims. A token is valid from Leeway before its issue until
// Leeway after its expiry, exclusive. Verify refuses a token of more than MaxTokenBytes and an empty audience.
// Every error is an *api.Error UNAUTHORIZED. errors.Is(err, ErrUnknownKey) reports that a newer set may hold the
// key.
func (s Set) Verify(text, audience string, now time.Time) (Claims, error) {
	return s.verify(text, audience, now, Leeway)
}

// VerifyOffline verifies a token as Verify does, for a process that cannot reach the control plane. It allows
// Outage instead of Leeway, because the other process may be unable to renew its token.
func (s Set) VerifyOffline(text, audience string, now time.Time) (Claims, error) {
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
	return Claims{Subject: c.Subject, Role: c.Role, Audience: audience, Run: c.Run, Expires: c.ExpiresAt.Time}, nil
}
