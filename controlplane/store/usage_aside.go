package store

import (
	"context"
	"database/sql"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/tenancy"
)

// AsideUsage describes a frame that was set aside.
type AsideUsage struct {
	Seq          int64 // of the audit row that the frame left
	AtNs         int64
	Org          tenancy.OrgID
	Source       billing.Source
	From, To     uint64
	Code, Reason string // of the refusal
	Bytes        int64  // of the frame
}

const asideColumns = "seq, at_ns, org, namespace, stream, incarnation, from_seq, to_seq, code, reason, bytes"

const selectAside = "SELECT " + asideColumns + " FROM usage_aside"

func scanAside(rows *sql.Rows) (a AsideUsage, err error) {
	err = rows.Scan(&a.Seq, &a.AtNs, &a.Org, &a.Source.Namespace, &a.Source.Stream, &a.Source.Incarnation, &a.From, &a.To, &a.Code, &a.Reason, &a.Bytes)
	return a, err
}

// AsideTotals sums frames that are set aside.
type AsideTotals struct{ Frames, Bytes int64 }

// full reports whether one more frame, of that many bytes, exceeds the bound most.
func (t AsideTotals) full(most AsideTotals, bytes int) bool {
	return t.Frames >= most.Frames || t.Bytes+int64(bytes) > most.Bytes
}

func scanAsideTotals(rows *sql.Rows) (t AsideTotals, err error) {
	err = rows.Scan(&t.Frames, &t.Bytes)
	return t, err
}

const selectAsideTotals = "SELECT COUNT(*), COALESCE(SUM(bytes), 0) FROM usage_aside"

// asideRetry is the Retry-After of a refusal for lack of room. It equals the longest pause of a host's usage
// sink, because an operator makes room in minutes at best.
const asideRetry = 30 * time.Second

// asideRoom refuses with OVERLOADED a frame that exceeds a bound of its namespace or of the cloud.
func asideRoom(q querier, l limits, namespace string, bytes int) error {
	own, _, err := first(q, scanAsideTotals, selectAsideTotals+" WHERE namespace = ?", namespace)
	if err != nil {
		return err
	}
	if own.full(l.namespaceAside, bytes) {
		return noAsideRoom("namespace "+namespace, own, l.namespaceAside)
	}
	cloud, _, err := first(q, scanAsideTotals, selectAsideTotals)
	if err != nil {
		return err
	}
	if cloud.full(l.aside, bytes) {
		return noAsideRoom("the cloud", cloud, l.aside)
	}
	return nil
}

func noAsideRoom(of string, has, most AsideTotals) *api.Error {
	refusal := api.Errorf(api.Overloaded, "%s has no room to set refused usage aside (%d frames of %d, %d bytes of %d): its sender keeps the frame, and a deletion waits, "+
		"until an operator has removed frames with DELETE /cloud/v1/usage/aside/{seq}", of, has.Frames, most.Frames, has.Bytes, most.Bytes)
	refusal.RetryAfter = asideRetry
	return refusal
}

// AsideRoom refuses with OVERLOADED a frame of the given number of bytes that exceeds a bound of its
// namespace or of the cloud. A frame that ends at or before the source's last number is a repeat and needs no
// room. A server calls AsideRoom before it proposes SetAsideUsage, because the log stores refused ops too,
// and a host repeats a frame of up to MaxAsideFrame bytes until there is room.
func (s *Store) AsideRoom(ctx context.Context, source billing.Source, to uint64, bytes int) error {
	return s.asideRoom(ctx, s.machine.limits, source, to, bytes)
}

// asideRoom implements AsideRoom with other limits.
func (s *Store) asideRoom(ctx context.Context, l limits, source billing.Source, to uint64, bytes int) error {
	_, err := read(ctx, s, func(r reader) (any, error) {
		last, err := lastUsage(r, source)
		if err != nil || to <= last { // a repeat needs no room
			return nil, err
		}
		return nil, asideRoom(r, l, source.Namespace, bytes)
	})
	return err
}

// AsideTotals sums all frames that are set aside.
func (s *Store) AsideTotals(ctx context.Context) (AsideTotals, error) {
	return read(ctx, s, func(r reader) (AsideTotals, error) {
		all, _, err := first(r, scanAsideTotals, selectAsideTotals)
		return all, err
	})
}

// AsideUsage lists at most limit frames that were set aside, and at most MaxPage, oldest first, after a given
// one. The list leaves out the frames' contents, because each may have MaxAsideFrame bytes.
func (s *Store) AsideUsage(ctx context.Context, after int64, limit int) ([]AsideUsage, error) {
	return read(ctx, s, func(r reader) ([]AsideUsage, error) {
		return list(r, scanAside, selectAside+" WHERE seq > ? ORDER BY seq LIMIT ?", after, page(limit))
	})
}

// AsideFrame reads one frame that was set aside, with its JSON; else NOT_FOUND.
func (s *Store) AsideFrame(ctx context.Context, seq int64) (a AsideUsage, frame []byte, err error) {
	frame, err = read(ctx, s, func(r reader) ([]byte, error) {
		var found bool
		var err error
		if a, found, err = first(r, scanAside, selectAside+" WHERE seq = ?", seq); err != nil {
			return nil, err
		}
		if !found {
			return nil, noAside(seq)
		}
		text, _, err := first(r, scalar[[]byte], "SELECT frame FROM usage_aside WHERE seq = ?", seq)
		return text, err
	})
	return a, frame, err
}

func noAside(seq int64) *api.Error {
	return api.Errorf(api.NotFound, "no usage is set aside under number %d", seq)
}
