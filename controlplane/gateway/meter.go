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

// ShipEvery is how often usage is delivered.
const ShipEvery = 2 * time.Second

// meter counts what each namespace uses of this gateway and delivers it. A source
// is one namespace in one run; its sequence numbers are its requests, one each. What
// has not been delivered is lost with the process, in the customer's favour.
type meter struct {
	random    io.Reader
	now       func() time.Time
	member    *fleet.Member
	directory *fleet.Directory
	log       *slog.Logger

	mu      sync.Mutex
	ledgers map[string]*ledger // by namespace
}

// ledger is one source. Its numbers up to sent have been delivered; pending, if
// any, is on its way as it is until it is known to have arrived; open is what came
// since. The meter's lock guards it; only the goroutine that ships changes pending.
type ledger struct {
	incarnation string // "" until the first frame
	sent        uint64
	pending     *billing.Frame
	count       uint64
	open        map[int64]billing.Quantities // by start of the hour
}

func newMeter(random io.Reader, now func() time.Time, member *fleet.Member, directory *fleet.Directory, log *slog.Logger) (*meter, error) {
	m := &meter{random: random, now: now, member: member, directory: directory, log: log, ledgers: map[string]*ledger{}}
	_, err := m.incarnation() // randomness that fails does so at the start
	return m, err
}

// incarnation names a sequence that has not been begun before.
func (m *meter) incarnation() (string, error) {
	var bits [16]byte
	if _, err := io.ReadFull(m.random, bits[:]); err != nil {
		return "", fmt.Errorf("random bits for a sequence of usage: %w", err)
	}
	return hex.EncodeToString(bits[:]), nil
}

// count counts a request that a host has answered: the bytes of both bodies.
func (m *meter) count(namespace string, in, out int64) {
	hour := m.now().Truncate(time.Hour).UnixNano()
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.ledgers[namespace]
	if l == nil {
		l = &ledger{}
		m.ledgers[namespace] = l
	}
	l.add(hour, billing.Quantities{Requests: 1, RequestBytes: in, ResponseBytes: out})
	l.count++
}

// add counts in an hour, or, when there are as many as a frame holds, in the last
// one there is: that takes weeks without a control plane. Beyond an int64 nothing
// is charged.
func (l *ledger) add(hour int64, more billing.Quantities) {
	if l.open == nil {
		l.open = map[int64]billing.Quantities{}
	}
	if _, ok := l.open[hour]; !ok && len(l.open) == billing.MaxFrameRows {
		hour = slices.Max(slices.Collect(maps.Keys(l.open)))
	}
	q := l.open[hour]
	_ = q.Add(more) // changes nothing when it fails
	l.open[hour] = q
}

// sweep drops the ledger of a namespace that is no more, once there is nothing left
// to deliver. The lock is held.
func (m *meter) sweep(namespace string, l *ledger) {
	d, ok := m.directory.Namespace(namespace)
	if (!ok || d.Desired != fleet.Open) && l.pending == nil && l.count == 0 {
		delete(m.ledgers, namespace)
	}
}

// run delivers until ctx ends.
func (m *meter) run(ctx context.Context) {
	tick := time.NewTicker(ShipEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			m.ship(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// flush delivers what there is, at the end.
func (m *meter) flush() {
	ctx, cancel := context.WithTimeout(context.Background(), fleet.CallTimeout)
	defer cancel()
	for range 2 { // what was on its way, then what came since
		m.ship(ctx)
	}
}

// ship delivers a frame of each namespace that has used something. It ends at the
// first that says that the control plane cannot be asked: the others would say so
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
			return // it stays pending; the member tells of a control plane that is away
		case code == api.Internal:
			m.log.Error("the control plane could not apply usage; it is sent again", "namespace", namespace, "error", err)
		default:
			m.settle(frame, last, err)
		}
	}
}

// frame is the one that is to be delivered next, nil for none. Once it was made it
// is the same until it has arrived, for nobody knows whether a frame whose answer
// is lost has.
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
		f.Rows = append(f.Rows, billing.Row{Dimensions: billing.Dimensions{HourNs: hour}, Quantities: l.open[hour]})
	}
	l.pending, l.open, l.count = f, nil, 0
	return f, nil
}

// settle takes the answer to a frame.
func (m *meter) settle(f *billing.Frame, last uint64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.ledgers[f.Namespace]
	switch {
	case err == nil && last >= f.To:
		l.sent, l.pending = f.To, nil
	case err == nil || api.CodeOf(err) == api.StateConflict:
		// The control plane has lost what it had acknowledged. That is not known
		// here any more; this frame begins another sequence.
		m.log.Error("the control plane has lost usage that it had acknowledged; it is not charged", "namespace", f.Namespace, "stream", f.Stream, "from", f.From, "last", last, "error", err)
		l.restart(f)
	default:
		m.log.Error("the control plane refuses usage; it is not charged", "namespace", f.Namespace, "stream", f.Stream, "from", f.From, "to", f.To, "error", err)
		l.sent, l.pending = f.To, nil
		l.incarnation = "" // or the next would leave a gap
	}
}

// restart puts a frame that was not applied back, for a sequence that is new.
func (l *ledger) restart(f *billing.Frame) {
	for _, r := range f.Rows {
		l.add(r.HourNs, r.Quantities)
	}
	l.count += f.To - f.From + 1
	l.pending, l.incarnation = nil, ""
}
