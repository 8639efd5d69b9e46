package keyring

import (
	"crypto/subtle"
	"slices"
	"strings"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/tenancy"
)

// Source finds keys by id. Verify calls it once per request, so it answers from
// memory.
type Source interface {
	Key(id string) (tenancy.Key, bool)
}

// What a caller is told. Whether a key is unknown, wrong, disabled or expired
// is one message, so that guessing learns nothing; only text that cannot be a
// key at all is told apart, which anyone can compute alone.
const (
	noKey   = "no API key: send Authorization: Bearer KEY, or X-API-Key: KEY"
	notAKey = "this is not a whole Corvo API key: one begins with cv_, and must be copied to its end"
	refused = "the API key is not valid: it is unknown, disabled or expired"
)

// Verify finds the key whose whole text the caller presents; it must be of one of
// the kinds that open this door. Every failure is an *api.Error UNAUTHORIZED.
func Verify(source Source, text string, now time.Time, opens ...Kind) (tenancy.Key, error) {
	kind, id, ok := Parse(text)
	switch {
	case text == "":
		return tenancy.Key{}, api.Errorf(api.Unauthorized, noKey)
	case !ok:
		return tenancy.Key{}, api.Errorf(api.Unauthorized, notAKey)
	case !slices.Contains(opens, kind):
		return tenancy.Key{}, api.Errorf(api.Unauthorized, "what begins with %s%s_ does not open this door: use what begins with %s", prefix, kind, begin(opens))
	}
	key, found := source.Key(id)
	// An unknown id is compared like a known one, so that time tells nothing.
	hash := Hash(text)
	same := subtle.ConstantTimeCompare(hash[:], key.Hash[:]) == 1
	was := subtle.ConstantTimeCompare(hash[:], key.PreviousHash[:]) == 1
	same = same || was && now.Before(key.PreviousUntil)
	if !found || !same || !key.Enabled || key.Expired(now) {
		return tenancy.Key{}, api.Errorf(api.Unauthorized, refused)
	}
	return key, nil
}

// begin is how keys of the kinds begin.
func begin(kinds []Kind) string {
	words := make([]string, len(kinds))
	for i, k := range kinds {
		words[i] = prefix + string(k) + "_"
	}
	return strings.Join(words, " or ")
}
