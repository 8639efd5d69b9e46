package keyring

import (
	"crypto/subtle"
	"slices"
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
	notAKey = "this is not a Corvo API key: it begins with cv_ and must be copied whole"
	refused = "the API key is not valid: it is unknown, disabled or expired"
)

// Verify finds the key whose whole text the caller presents; it must be of one of
// the kinds that open this door. Every failure is an *api.Error UNAUTHORIZED.
func Verify(source Source, text string, now time.Time, opens ...Kind) (tenancy.Key, error) {
	kind, id, ok := Parse(text)
	if !ok || !slices.Contains(opens, kind) {
		return tenancy.Key{}, api.Errorf(api.Unauthorized, notAKey)
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
