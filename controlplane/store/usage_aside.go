package store

import (
	"context"
	"database/sql"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/tenancy"
)

// AsideUsage describes a frame that was set aside.
type AsideUsage struct {
	Seq          int64
	AtNs         int64
	Org          tenancy.OrgID
	Source       billing.Source
	From, To     uint64
	Code, Reason string // of the refusal
	Bytes        int64  // of the frame
}

const asideColumns = "seq, at_ns, org, namespace, stream, incarnation, from_seq, to_seq, code, reason, bytes"

func scanAside(rows *sql.Rows) (a AsideUsage, err error) {
	err = rows.Scan(&a.Seq, &a.AtNs, &a.Org, &a.Source.Namespace, &a.Source.Stream, &a.Source.Incarnation, &a.From, &a.To, &a.Code, &a.Reason, &a.Bytes)
	return a, err
}

// AsideUsage lists the frames that were set aside, oldest first, after a given one. The list leaves out the
// frames' contents, because each may have MaxAsideFrame bytes.
func (s *Store) AsideUsage(ctx context.Context, after int64, limit int) ([]AsideUsage, error) {
	return read(ctx, s, func(r reader) ([]AsideUsage, error) {
		return list(r, scanAside, "SELECT "+asideColumns+" FROM usage_aside WHERE seq > ? ORDER BY seq LIMIT ?", after, page(limit))
	})
}

// AsideFrame reads one frame that was set aside, with its JSON; else NOT_FOUND.
func (s *Store) AsideFrame(ctx context.Context, seq int64) (a AsideUsage, frame []byte, err error) {
	frame, err = read(ctx, s, func(r reader) ([]byte, error) {
		var found bool
		var err error
		if a, found, err = first(r, scanAside, "SELECT "+asideColumns+" FROM usage_aside WHERE seq = ?", seq); err != nil {
			return nil, err
		}
		if !found {
			return nil, api.Errorf(api.NotFound, "no usage was set aside under number %d", seq)
		}
		text, _, err := first(r, scalar[[]byte], "SELECT frame FROM usage_aside WHERE seq = ?", seq)
		return text, err
	})
	return a, frame, err
}
