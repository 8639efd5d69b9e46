package gateway

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/serve/ratelimit"
)

// admit applies the rate limits to a request, authenticates it and returns the document of its namespace. The limit
// of the client's address comes before the authentication, the limit of its key after it.
func (g *Gateway) admit(ctx context.Context, t *proxiedRequest, r *http.Request) (doc fleet.Doc, err error) {
	err = g.limits.Admit(r, g.config.Now(), func() (*ratelimit.Bucket, error) {
		who, found, err := g.member.Authenticate(ctx, g.directory, t.credential, t.hint, reachable)
		if doc = found; err != nil || g.config.Limits.PerKey == 0 {
			return nil, err
		}
		return g.keyRates.of(who.KeyID), nil
	})
	return doc, err
}

// keyRates holds the rate limit buckets of the keys in recent use. Only keys that were authenticated get one, so that
// guesses take no memory.
type keyRates struct{ buckets sync.Map } // id of the key -> *ratelimit.Bucket

func (p *keyRates) of(key string) *ratelimit.Bucket {
	b, ok := p.buckets.Load(key)
	if !ok {
		b, _ = p.buckets.LoadOrStore(key, new(ratelimit.Bucket))
	}
	return b.(*ratelimit.Bucket)
}

// forget drops the buckets from which no token is missing, because a new bucket is equal to them.
func (p *keyRates) forget(now time.Time) {
	p.buckets.Range(func(key, b any) bool {
		if b.(*ratelimit.Bucket).Full(now) {
			p.buckets.Delete(key)
		}
		return true
	})
}
