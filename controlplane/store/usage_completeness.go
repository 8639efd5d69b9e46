package store

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/tenancy/keyring"
)

// MaxLateSources is the largest number of late sources in a Completeness.
const MaxLateSources = 100

// UsageSource is a source of usage and the time until which it is complete.
type UsageSource struct {
	Namespace string // its id; "" = a gateway, for all namespaces
	Stream    string
	UntilNs   int64
}

// Completeness is until when the usage of an organisation or a namespace is complete.
type Completeness struct {
	// UntilNs is the least time of all sources, and now if there is none. An hour that ends by then gets no more usage.
	UntilNs int64
	// Late has the sources that are more than billing.LateAfter behind, those that are furthest behind first, and at
	// most MaxLateSources.
	Late []UsageSource
}

// Completeness returns until when the usage of the organisation or the namespace of a query is complete. Its errors are
// those of Usage.
func (s *Store) Completeness(ctx context.Context, q UsageQuery, now time.Time) (Completeness, error) {
	return read(ctx, s, func(r reader) (Completeness, error) {
		namespaces, args, err := usageOf(r, q)
		if err != nil {
			return Completeness{}, err
		}
		sources, err := usageSources(r, namespaces, args)
		return completeness(sources, now.UnixNano()), err
	})
}

// completeness decides until when the usage of some sources is complete.
func completeness(sources []UsageSource, nowNs int64) Completeness {
	c := Completeness{UntilNs: nowNs}
	for _, s := range sources {
		c.UntilNs = min(c.UntilNs, s.UntilNs)
		if nowNs-s.UntilNs > int64(billing.LateAfter) {
			c.Late = append(c.Late, s)
		}
	}
	slices.SortStableFunc(c.Late, func(a, b UsageSource) int { return cmp.Compare(a.UntilNs, b.UntilNs) })
	c.Late = c.Late[:min(len(c.Late), MaxLateSources)]
	return c
}

// usageSources returns the sources whose usage of some namespaces may still come: the shards of the namespaces from their
// founding until their deletion has ended, and the gateways that have joined. A source without a claim is complete
// until the namespace or the gateway was created, because there was none before.
func usageSources(r querier, namespaces string, args []any) (all []UsageSource, err error) {
	type founded struct {
		id           string
		createdNs    int64
		incarnations incarnationsColumn
	}
	scanFounded := func(rows *sql.Rows) (f founded, err error) {
		err = rows.Scan(&f.id, &f.createdNs, &f.incarnations)
		return f, err
	}
	some, err := list(r, scanFounded, `SELECT n.id, n.created_ns, f.incarnations FROM namespaces n JOIN foundings f ON f.namespace = n.id
		WHERE n.id IN (`+namespaces+`) AND n.phase <> ? AND f.founded_ns > 0 ORDER BY n.id`, append(slices.Clone(args), string(fleet.Deleted))...)
	if err != nil {
		return nil, err
	}
	scanClaim := func(rows *sql.Rows) (s UsageSource, err error) {
		err = rows.Scan(&s.Namespace, &s.Stream, &s.UntilNs)
		return s, err
	}
	claims, err := list(r, scanClaim, "SELECT namespace, stream, until_ns FROM usage_claims WHERE namespace IN ("+namespaces+")", args...)
	if err != nil {
		return nil, err
	}
	until := make(map[UsageSource]int64, len(claims))
	for _, c := range claims {
		until[UsageSource{Namespace: c.Namespace, Stream: c.Stream}] = c.UntilNs
	}
	for _, f := range some {
		for shard := range f.incarnations {
			s := UsageSource{Namespace: f.id, Stream: shardStream(shard)}
			s.UntilNs = max(f.createdNs, until[s])
			all = append(all, s)
		}
	}
	gateways, err := list(r, scanClaim, `SELECT '', 'gateway/' || h.id, MAX(h.created_ns, COALESCE(c.until_ns, 0)) FROM hosts h
		LEFT JOIN usage_claims c ON c.namespace = '' AND c.stream = 'gateway/' || h.id WHERE h.kind = ? AND h.binary <> '' ORDER BY h.id`, string(keyring.Gateway))
	return append(all, gateways...), err
}
