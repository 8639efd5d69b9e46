package gateway

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/billing"
)

// ShipEvery is the time between two deliveries of usage.
const ShipEvery = 2 * time.Second

// maxHours is the greatest number of hours in a frame, each of which has a row of three meters.
const maxHours = billing.MaxFrameRows / 3

// meter counts the requests that hosts answered through this gateway, by namespace, and delivers the counts.
// A source is a namespace with an incarnation. The incarnation is new in each run, after the control plane
// has lost usage, and after it refused a frame. Each request has one sequence number. Undelivered counts are
// lost with the process, in favour of the customer.
type meter struct {
	random    io.Reader
	now       func() time.Time
	member    *fleet.Member
	directory *fleet.Directory
	log       *slog.Logger

	mu      sync.Mutex
	ledgers map[string]*ledger // by namespace

	claimDue time.Time // when run reports the next claim
}

// ledger is the usage of one source. The numbers up to sent are done: delivered, or refused by the control
// plane. pending is a frame under way: it stays unchanged until its delivery is confirmed. open has the
// counts of the requests after pending, and count is the number of these requests. The lock of the meter
// guards a ledger; only the goroutine that ships changes pending.
type ledger struct {
	incarnation string // "" until the first frame
	sent        uint64
	pending     *billing.Frame
	count       uint64
	open        map[int64]billing.Quantities // by start of the hour

	// The times of the oldest request in pending and in open; zero = none.
	pendingSince, openSince time.Time
}

func newMeter(random io.Reader, now func() time.Time, member *fleet.Member, directory *fleet.Directory, log *slog.Logger) (*meter, error) {
	m := &meter{random: random, now: now, member: member, directory: directory, log: log, ledgers: map[string]*ledger{}}
	_, err := m.incarnation() // so that missing randomness fails at the start
	return m, err
}

// incarnation generates the name of a new sequence.
func (m *meter) incarnation() (string, error) {
	var bits [16]byte
	if _, err := io.ReadFull(m.random, bits[:]); err != nil {
		return "", fmt.Errorf("random bits for a sequence of usage: %w", err)
	}
	return hex.EncodeToString(bits[:]), nil
}

// count counts a request that a host has answered, with the bytes of both bodies.
func (m *meter) count(namespace string, in, out int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now() // under the lock, so that it is not before a claim
	l := m.ledgers[namespace]
	if l == nil {
		l = &ledger{}
		m.ledgers[namespace] = l
	}
	l.add(now.Truncate(time.Hour).UnixNano(), billing.Quantities{billing.Requests: 1, billing.RequestBytes: in, billing.ResponseBytes: out})
	if l.count++; l.count == 1 {
		l.openSince = now
	}
}

// add adds to the counts of an hour. If there are maxHours, which takes two weeks without a control
// plane, it adds to the newest of these hours instead. Counts beyond an int64 are not
// charged.
func (l *ledger) add(hour int64, more billing.Quantities) {
	if l.open == nil {
		l.open = map[int64]billing.Quantities{}
	}
	if _, ok := l.open[hour]; !ok && len(l.open) == maxHours {
		hour = slices.Max(slices.Collect(maps.Keys(l.open)))
	}
	q := l.open[hour]
	_ = q.Add(more) // changes nothing if it fails
	l.open[hour] = q
}

// sweep drops the ledger of a namespace that is deleted or being deleted, if there is nothing left to
// deliver. The caller holds the lock.
func (m *meter) sweep(namespace string, l *ledger) {
	d, ok := m.directory.Namespace(namespace)
	if (!ok || d.Desired != fleet.Open) && l.pending == nil && l.count == 0 {
		delete(m.ledgers, namespace)
	}
}

// run delivers usage until ctx ends.
func (m *meter) run(ctx context.Context) {
	tick := time.NewTicker(ShipEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			m.ship(ctx)
			m.reportClaim(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// flush delivers the remaining usage at the end.
func (m *meter) flush() {
	ctx, cancel := context.WithTimeout(context.Background(), fleet.CallTimeout)
	defer cancel()
	for range 2 { // first the frames under way, then the later counts
		m.ship(ctx)
	}
}

// ship delivers a frame for each namespace with usage. It stops if the gateway has no token, or if the
// control plane cannot be reached, is overloaded or refuses the token, because the other frames would fail
// too.
func (m *meter) ship(ctx context.Context) {
	m.mu.Lock()
	namespaces := slices.Sorted(maps.Keys(m.ledgers))
	m.mu.Unlock()
	for _, namespace := range namespaces {
		if ctx.Err() != nil || m.member.Token() == "" {
			return
		}
		frame, err := m.frame(namespace)
		if err != nil {
			m.log.Error("usage cannot be delivered", "namespace", namespace, "error", err)
			return
		}
		if frame == nil {
			continue
		}
		last, err := m.member.SendUsage(ctx, *frame)
		switch code := api.CodeOf(err); {
		case code.Retryable(), code == api.Unauthorized:
			return // the frame stays pending; the member logs that the control plane is down
		case code == api.Internal:
			m.log.Error("the control plane could not apply usage; the gateway sends it again", "namespace", namespace, "error", err)
		default:
			m.settle(frame, last, err)
		}
	}
}

// frame returns the next frame to deliver, or nil. It returns the same frame until settle has handled a
// response, because a frame whose response was lost may have been applied.
func (m *meter) frame(namespace string) (*billing.Frame, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.ledgers[namespace]
	if l == nil || l.pending != nil {
		if l == nil {
			return nil, nil
		}
		return l.pending, nil
	}
	if l.count == 0 {
		m.sweep(namespace, l)
		return nil, nil
	}
	if l.incarnation == "" {
		id, err := m.incarnation()
		if err != nil {
			return nil, err
		}
		l.incarnation, l.sent = id, 0
	}
	f := &billing.Frame{
		Source: billing.Source{Namespace: namespace, Stream: "gateway/" + m.member.ID(), Incarnation: l.incarnation},
		From:   l.sent + 1, To: l.sent + l.count,
	}
	for _, hour := range slices.Sorted(maps.Keys(l.open)) {
		f.Rows = billing.Dimensions{HourNs: hour}.AppendRows(f.Rows, l.open[hour])
	}
	f.Hash = billing.HashRows(f.Rows)
	l.pending, l.open, l.count = f, nil, 0
	l.pendingSince, l.openSince = l.openSince, time.Time{}
	return f, nil
}

// settle applies the response to a frame.
func (m *meter) settle(f *billing.Frame, last uint64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.ledgers[f.Namespace]
	switch {
	case err == nil && last >= f.To:
		l.sent, l.pending = f.To, nil
	case err == nil || api.CodeOf(err) == api.StateConflict:
		// The control plane has lost usage that it had acknowledged, and the gateway has dropped that usage.
		// The contents of this frame go into a new sequence.
		m.log.Error("the control plane has lost usage that it had acknowledged; it is not charged", "namespace", f.Namespace, "stream", f.Stream, "first_row", f.From, "last_applied_row", last, "error", err)
		l.restart(f)
	default:
		m.log.Error("the control plane refuses usage; it is not charged", "namespace", f.Namespace, "stream", f.Stream, "first_row", f.From, "last_row", f.To, "error", err)
		l.sent, l.pending = f.To, nil
		l.incarnation = "" // without a new sequence the next frame would leave a gap
	}
}

// restart puts back the contents of a frame that was not applied, for a new sequence.
func (l *ledger) restart(f *billing.Frame) {
	for _, r := range f.Rows {
		l.add(r.HourNs, r.Quantities())
	}
	l.count += f.To - f.From + 1
	l.openSince = l.pendingSince
	l.pending, l.incarnation = nil, ""
}
