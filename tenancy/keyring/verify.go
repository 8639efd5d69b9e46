package keyring

import (
	"crypto/subtle"
	"slices"
	"strings"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/tenancy"
)

// Source finds keys by id. Verify calls it up to once per request, so it must answer from memory.
type Source interface {
	Key(id string) (tenancy.Key, bool)
}

// The messages of refusals. An unknown, wrong, disabled or expired key gets the same message, so that a guess tells
// a caller nothing. A missing text, a text that cannot be a key and a key of another kind get other messages,
// because the caller can see that without us.
const (
	noKey   = "no API key: send Authorization: Bearer KEY, or X-API-Key: KEY"
	notAKey = "this is not a whole Corvo API key: one begins with cv_, and must be copied to its end"
	refused = "the API key is not valid: it is unknown, disabled or expired"
)

// Verify returns the key with the presented text. It accepts only the kinds in opens. Until PreviousUntil it
// also accepts the text before the last rotation. Every error is an *api.Error UNAUTHORIZED.
func Verify(source Source, text string, now time.Time, opens ...Kind) (tenancy.Key, error) {
	kind, id, ok := Parse(text)
	switch {
	case text == "":
		return tenancy.Key{}, api.Errorf(api.Unauthorized, noKey)
	case !ok:
		return tenancy.Key{}, api.Errorf(api.Unauthorized, notAKey)
	case !slices.Contains(opens, kind):
		return tenancy.Key{}, api.Errorf(api.Unauthorized, "a key that starts with %s%s_ is not accepted here: use a key that starts with %s", prefix, kind, prefixes(opens))
	}
	key, found := source.Key(id)
	// An unknown id is compared like a known one, so that the time of the response reveals nothing.
	hash := Hash(text)
	same := subtle.ConstantTimeCompare(hash[:], key.Hash[:]) == 1
	was := subtle.ConstantTimeCompare(hash[:], key.PreviousHash[:]) == 1
	same = same || was && now.Before(key.PreviousUntil)
	if !found || !same || !key.Enabled || key.Expired(now) {
		return tenancy.Key{}, api.Errorf(api.Unauthorized, refused)
	}
	return key, nil
}

// prefixes lists the prefixes of the keys of some kinds.
func prefixes(kinds []Kind) string {
	words := make([]string, len(kinds))
	for i, k := range kinds {
		words[i] = prefix + string(k) + "_"
	}
	return strings.Join(words, " or ")
}
