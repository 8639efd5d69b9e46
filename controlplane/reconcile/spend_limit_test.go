package reconcile

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/tenancy"
)

// tokenPlans returns plans in which a million input tokens cost a dollar.
func tokenPlans(t *testing.T) *billing.PlanBook {
	t.Helper()
	var versions []string
	for _, p := range billing.Plans {
		versions = append(versions, fmt.Sprintf(`{"plan":%q,"price_version":"%s-1","begins_at":"1970-01-01T00:00:00Z","monthly_fee_usd":0,"minimum_usd":0,"discount_percent":0,
			"prices":[{"meter":"input_tokens","per":1000000,"tiers":[{"usd":1}]}]}`, p, p))
	}
	book, err := billing.ParsePlanBook([]byte(`{"plans":[` + strings.Join(versions, ",") + `]}`))
	if err != nil {
		t.Fatal(err)
	}
	return book
}

// spendTest is a reconciler with an organisation, whose clock a test moves.
type spendTest struct {
	t          *testing.T
	s          *store.Store
	r          *Reconciler
	book       map[tenancy.OrgID]rated
	began, now time.Time
	frames     uint64
}

func newSpendTest(t *testing.T) *spendTest {
	t.Helper()
	s, _ := openStore(t)
	populate(t, s)
	w := &spendTest{t: t, s: s, began: time.Now().UTC()}
	if late := w.began.Add(15 * time.Minute); late.Month() != w.began.Month() { // a test passes less time
		w.began = w.began.Add(-15 * time.Minute)
	}
	w.now = w.began
	w.r = New(Config{Store: s, Observations: NewObservations(time.Now, HostGrace), Now: func() time.Time { return w.now }, Logger: slog.New(slog.DiscardHandler), Plans: tokenPlans(t)})
	return w
}

// use records usage that costs an amount.
func (w *spendTest) use(dollars int64) {
	w.t.Helper()
	w.frames++
	propose(w.t, w.s, &store.ApplyUsage{Meta: &store.Meta{Principal: "test"}, Namespace: "ns_1", Stream: "shard/0", Incarnation: "ab", From: w.frames, To: w.frames, Rows: []*store.UsageRow{
		{HourNs: w.began.Truncate(time.Hour).UnixNano(), Queue: "q", Meter: uint32(billing.InputTokens), Quantity: dollars * 1_000_000},
	}})
}

func (w *spendTest) limit(dollars money.Nano) {
	w.t.Helper()
	n := int64(dollars * money.Dollar)
	propose(w.t, w.s, &store.SetSpendLimit{Meta: &store.Meta{Principal: "test"}, Org: "org_1", LimitNanoUsd: &n})
}

func (w *spendTest) check() { w.book = w.r.checkSpend(w.t.Context(), leading(w.t, w.s), w.book) }

// want checks the limits once, and compares when the organisation was rated last, the highest alert and the hold.
func (w *spendTest) want(when string, ratedAt time.Time, alerted int64, held bool) {
	w.t.Helper()
	w.check()
	status, err := w.s.SpendStatus(w.t.Context(), "org_1", time.Now())
	if err != nil || status.Limit == nil {
		w.t.Fatalf("%s: %+v, %v", when, status, err)
	}
	if at := w.book["org_1"].at; !at.Equal(ratedAt) || status.Limit.Alerted != alerted || (status.Limit.HeldNs != 0) != held {
		w.t.Errorf("%s: rated after %s, want %s; %d %% are reached, want %d; held: %v", when, at.Sub(w.began), ratedAt.Sub(w.began), status.Limit.Alerted, alerted, !held)
	}
	docs, err := w.s.Docs(w.t.Context(), 0, 10)
	if err != nil || len(docs) != 1 || (docs[0].Hold != "") != held {
		w.t.Errorf("%s: the documents are %+v, %v", when, docs, err)
	}
}

// The leader rates an organisation that has a limit when usage is new, at most each minute. It records what its bill has
// reached, and nothing more. A raise and a higher limit take effect without another rating.
func TestSpendLimitsAreWatched(t *testing.T) {
	t.Parallel()
	w := newSpendTest(t)
	w.use(4)
	if w.check(); len(w.book) != 0 {
		t.Error("an organisation without a limit was rated")
	}
	w.limit(10)
	w.want("a first look", w.now, 0, false)
	w.use(1)
	w.now = w.now.Add(rateEvery - 1)
	w.want("too early", w.began, 0, false)
	w.now = w.now.Add(1)
	w.want("half", w.now, 50, false)
	last := w.now
	for range 3 {
		w.now = w.now.Add(rateEvery)
		if !w.now.Truncate(time.Hour).Equal(last.Truncate(time.Hour)) { // an hour that has begun is a reason of its own
			last = w.now
		}
		w.want("nothing new", last, 50, false)
	}
	w.use(5)
	w.now = w.now.Add(rateEvery)
	last = w.now
	w.want("reached", last, 100, true)
	propose(t, w.s, &store.RaiseSpendLimit{Meta: &store.Meta{Principal: "test"}, Id: "r1", Org: "org_1", AmountNanoUsd: 1, Reason: "test", ExpiresNs: time.Now().Add(time.Hour).UnixNano()})
	w.now = w.now.Add(Tick) // less than a minute
	w.want("raised", last, 100, false)
	w.use(1)
	w.now = w.now.Add(rateEvery)
	last = w.now
	w.want("the raise is used up", last, 100, true)
	w.limit(20)
	w.now = w.now.Add(Tick)
	w.want("a higher limit", last, 100, false)
}

// A rating that fails neither ends a hold nor is repeated at once.
func TestASpendThatCannotBeRated(t *testing.T) {
	t.Parallel()
	w := newSpendTest(t)
	w.use(1)
	w.limit(1)
	w.want("reached", w.now, 100, true)
	w.r.cfg.Plans = &billing.PlanBook{} // has no version of any plan
	w.use(1)
	w.now = w.now.Add(rateEvery)
	last := w.now
	w.want("a rating that fails", last, 100, true)
	w.r.cfg.Plans = tokenPlans(t)
	w.now = w.now.Add(rateEvery - 1)
	w.want("too early to try again", last, 100, true)
	w.now = w.now.Add(1)
	w.want("tried again", w.now, 100, true)
}
