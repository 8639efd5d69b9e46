package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/controlplane/fleet"
)

// isAhead reports whether the hour of a row begins more than MaxUsageAhead after a time. The clock of the row's source is
// wrong then, or that of the control plane. Rows of ops of earlier builds, which carry no hash, never are, so that
// each build applies these ops alike.
func (o *ApplyUsage) isAhead(r *UsageRow, nowNs int64) bool {
	return len(o.RowsSha256) > 0 && r.GetHourNs()-nowNs > int64(MaxUsageAhead)
}

// aheadFrame returns the frame of the rows that are ahead of a time, in JSON and with a hash of its own; nil = no row is.
func (o *ApplyUsage) aheadFrame(nowNs int64) (frame []byte, rows int, err error) {
	f := billing.Frame{Source: billing.Source{Namespace: o.Namespace, Stream: o.Stream, Incarnation: o.Incarnation}, From: o.From, To: o.To}
	for _, r := range o.Rows {
		if !o.isAhead(r, nowNs) {
			continue
		}
		of := billing.Dimensions{HourNs: r.GetHourNs(), Queue: r.GetQueue(), Model: r.GetModel(), Provider: r.GetProvider()}
		for _, m := range r.metered() {
			f.Rows = append(f.Rows, billing.Row{Dimensions: of, Meter: m.meter, Quantity: m.quantity})
		}
	}
	if len(f.Rows) == 0 {
		return nil, 0, nil
	}
	f.Hash = billing.HashRows(f.Rows)
	frame, err = json.Marshal(f)
	return frame, len(f.Rows), err
}

// setAheadAside stores the rows of a frame that are ahead of the entry's clock, so that neither their source is blocked nor a
// later month gets them. It returns their number. At a bound it refuses the whole frame, which the source keeps.
func (tx *Tx) setAheadAside(o *ApplyUsage, ns fleet.Namespace) (rows int, err error) {
	frame, rows, err := o.aheadFrame(tx.clockNs())
	if err != nil || rows == 0 {
		return 0, err
	}
	if err := asideRoom(tx, tx.limits.forAhead(), o.Namespace, len(frame)); err != nil {
		return 0, err
	}
	// The frame has the number of its audit row, like one that SetAsideUsage stores.
	err = tx.addAudit(AuditRow{Org: ns.Org, Principal: o.GetMeta().GetPrincipal(), Action: setAsideAction, Target: o.Namespace, Count: 1})
	if err != nil {
		return 0, err
	}
	reason := fmt.Sprintf("the hours of %d rows begin more than %s after %s, the control plane's clock: set the clocks of the sender and of the control plane",
		rows, MaxUsageAhead, time.Unix(0, tx.clockNs()).UTC().Format(time.RFC3339))
	return rows, tx.putAside(ns.Org, &SetAsideUsage{
		Namespace: o.Namespace, Stream: o.Stream, Incarnation: o.Incarnation, From: o.From, To: o.To,
		Code: string(api.ValidationError), Reason: reason, Frame: frame,
	})
}

// forAhead returns the limits with the bound of the cloud that holds for rows ahead.
func (l limits) forAhead() limits {
	l.aside = l.ahead
	return l
}

// AheadRoom refuses with OVERLOADED a frame with rows ahead of now for which there is no room. A server calls it before it
// proposes the op, for the reason of AsideRoom.
func (s *Store) AheadRoom(ctx context.Context, o *ApplyUsage, now time.Time) error {
	frame, rows, err := o.aheadFrame(now.UnixNano())
	if err != nil || rows == 0 {
		return err
	}
	return s.asideRoom(ctx, s.machine.limits.forAhead(), billing.Source{Namespace: o.Namespace, Stream: o.Stream, Incarnation: o.Incarnation}, o.To, len(frame))
}
