package gateway

import (
	"cmp"
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/serve/pace"
)

// letIn finds the namespace a request is let into, within the limits at the door. A
// failure is counted after the credential was looked at, so that a flood from an address
// never keeps out a valid one from there.
func (g *Gateway) letIn(ctx context.Context, t *trip, r *http.Request) (fleet.Doc, error) {
	from, now := g.limits.From(r), g.config.Now()
	if err := g.limits.Arrives(from, now); err != nil {
		return fleet.Doc{}, err
	}
	who, doc, err := g.member.Enter(ctx, g.book, t.credential, t.hint, reachable)
	switch {
	case api.CodeOf(err) == api.Unauthorized:
		err = cmp.Or(g.limits.Failed(from, now), err)
	case err == nil && g.config.Limits.PerKey != 0:
		err = g.limits.Asks(g.paces.of(who.KeyID), now)
	}
	return doc, err
}

// keyPaces is how fast keys ask that have asked of late. Only those that exist have one.
type keyPaces struct{ buckets sync.Map } // id of the key -> *pace.Bucket

func (p *keyPaces) of(key string) *pace.Bucket {
	b, ok := p.buckets.Load(key)
	if !ok {
		b, _ = p.buckets.LoadOrStore(key, new(pace.Bucket))
	}
	return b.(*pace.Bucket)
}

// forget lets go of what says no more than a new one would.
func (p *keyPaces) forget(now time.Time) {
	p.buckets.Range(func(key, b any) bool {
		if b.(*pace.Bucket).Rests(now) {
			p.buckets.Delete(key)
		}
		return true
	})
}
