package gateway

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/serve/pace"
)

// letIn finds the namespace a request is let into, within the limits at the door.
func (g *Gateway) letIn(ctx context.Context, t *trip, r *http.Request) (doc fleet.Doc, err error) {
	err = g.limits.Enter(r, g.config.Now(), func() (*pace.Bucket, error) {
		who, found, err := g.member.Enter(ctx, g.book, t.credential, t.hint, reachable)
		if doc = found; err != nil || g.config.Limits.PerKey == 0 {
			return nil, err
		}
		return g.paces.of(who.KeyID), nil
	})
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
