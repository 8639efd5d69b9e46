package certificate

import (
	"crypto/x509"
	"fmt"
	"net/url"
	"strings"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/text"
)

// Kind is the kind of a member of the fleet.
type Kind string

// These are the kinds of members that have certificates.
const (
	ControlPlane Kind = "control-plane"
	Host         Kind = "host"
	Gateway      Kind = "gateway"
)

// MaxName is the largest number of characters of an id in an identity.
const MaxName = 64

// scheme precedes the kind in the URI of an identity.
const scheme = "corvo://fleet/"

// Identity names a member of the fleet. Two identities are the same member only if all their fields are equal.
type Identity struct {
	Kind  Kind
	ID    string
	Store string // the id of the data directory; only of a host, which always has one
}

// Validate checks the kind and the ids. The error is a VALIDATION_ERROR.
func (i Identity) Validate() error {
	switch i.Kind {
	case ControlPlane, Host, Gateway:
	default:
		return api.Errorf(api.ValidationError, "a member of the fleet is a control-plane, a host or a gateway, not %s", text.Quote(string(i.Kind)))
	}
	if !isName(i.ID) {
		return api.Errorf(api.ValidationError, "the id %s of a %s is not 1 to %d letters, digits, '-', '_' or '.'", text.Quote(i.ID), i.Kind, MaxName)
	}
	switch {
	case i.Kind == Host && !isName(i.Store):
		return api.Errorf(api.ValidationError, "the store %s of host %s is not 1 to %d letters, digits, '-', '_' or '.'", text.Quote(i.Store), i.ID, MaxName)
	case i.Kind != Host && i.Store != "":
		return api.Errorf(api.ValidationError, "%s %s names a store, and only a host has one", i.Kind, i.ID)
	}
	return nil
}

// isName reports whether s is 1 to MaxName characters that a URI holds unescaped, so that an identity has
// exactly one spelling.
func isName(s string) bool {
	for _, c := range []byte(s) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return s != "" && len(s) <= MaxName
}

// String returns the URI of the identity: corvo://fleet/<kind>/<id>, for a host followed by /<store>.
func (i Identity) String() string {
	uri := scheme + string(i.Kind) + "/" + i.ID
	if i.Store != "" {
		uri += "/" + i.Store
	}
	return uri
}

// ParseIdentity parses the URI of an identity. It accepts only the spelling that String returns. Every error
// is a VALIDATION_ERROR.
func ParseIdentity(uri string) (Identity, error) {
	path, ok := strings.CutPrefix(uri, scheme)
	parts := strings.Split(path, "/")
	if !ok || len(parts) < 2 || len(parts) > 3 {
		return Identity{}, api.Errorf(api.ValidationError, "%s is not %s<kind>/<id>[/<store>]", text.Quote(uri), scheme)
	}
	i := Identity{Kind: Kind(parts[0]), ID: parts[1]}
	if len(parts) == 3 {
		i.Store = parts[2]
	}
	if err := i.Validate(); err != nil {
		return Identity{}, err
	}
	if i.String() != uri { // an empty store after a slash
		return Identity{}, api.Errorf(api.ValidationError, "%s is not %s<kind>/<id>[/<store>]", text.Quote(uri), scheme)
	}
	return i, nil
}

// identityOf returns the identity in a certificate, its only URI. It refuses a certificate with another URI
// or an e-mail address, and a host's or gateway's certificate with a DNS name or an IP address, because the
// authority issues none of these. Every error is UNAUTHORIZED.
func identityOf(c *x509.Certificate) (Identity, error) {
	if len(c.URIs) != 1 || len(c.EmailAddresses) > 0 {
		return Identity{}, api.Errorf(api.Unauthorized, "the certificate does not name exactly one member of the fleet")
	}
	i, err := ParseIdentity(c.URIs[0].String())
	if err != nil {
		return Identity{}, api.Wrap(err, api.Unauthorized, fmt.Sprintf("the certificate names no member of the fleet: %v", err))
	}
	if i.Kind != ControlPlane && len(c.DNSNames)+len(c.IPAddresses) > 0 {
		return Identity{}, api.Errorf(api.Unauthorized, "the certificate of %s is also for other names", i)
	}
	return i, nil
}

// StoreOf returns the store in a certificate, or "" if it is not of a host.
func StoreOf(c *x509.Certificate) string {
	i, err := identityOf(c)
	if err != nil {
		return ""
	}
	return i.Store
}

// url returns the URI for a certificate.
func (i Identity) url() (*url.URL, error) {
	if err := i.Validate(); err != nil {
		return nil, err
	}
	return url.Parse(i.String())
}
