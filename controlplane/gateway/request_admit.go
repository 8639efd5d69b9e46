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
// of the client's address comes before the authentication, the limits of its key, its namespace and its organisation
// after it.
func (g *Gateway) admit(ctx context.Context, t *proxiedRequest, r *http.Request) (doc fleet.Doc, err error) {
	err = g.limits.Admit(r, g.config.Now(), func() (of ratelimit.Buckets, err error) {
		who, found, err := g.member.Authenticate(ctx, g.directory, t.credential, t.hint, reachable)
		if doc = found; err != nil {
			return of, err
		}
		if g.config.Limits.PerKey != 0 {
			of.Key = g.rates.of(who.KeyID)
		}
		if g.config.Limits.PerNamespace != 0 {
			of.Namespace = g.rates.of(doc.Namespace)
		}
		if g.config.Limits.PerOrg != 0 {
			of.Org = g.rates.of(doc.Org)
		}
		return of, nil
	})
	return doc, err
}

// rates holds the rate limit buckets of the keys, namespaces and organisations in recent use. Only
// authenticated requests create buckets, so that guesses take no memory.
type rates struct{ buckets sync.Map } // id -> *ratelimit.Bucket; no id is of two kinds

func (p *rates) of(id string) *ratelimit.Bucket {
	b, ok := p.buckets.Load(id)
	if !ok {
		b, _ = p.buckets.LoadOrStore(id, new(ratelimit.Bucket))
	}
	return b.(*ratelimit.Bucket)
}

// forget drops the full buckets, because a new bucket is equal to them.
func (p *rates) forget(now time.Time) {
	p.buckets.Range(func(id, b any) bool {
		if b.(*ratelimit.Bucket).Full(now) {
			p.buckets.Delete(id)
		}
		return true
	})
}
