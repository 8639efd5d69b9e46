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

// The leader rates an organisation that has a limit when usage is new, at most each minute. It records what its bill has
// reached, and nothing more. A raise and a higher limit take effect without another rating.
func TestSpendLimitsAreWatched(t *testing.T) {
	t.Parallel()
	s, _ := openStore(t)
	populate(t, s)
	meta, frames := &store.Meta{Principal: "test"}, uint64(0)
	began := time.Now().UTC()
	if late := began.Add(15 * time.Minute); late.Month() != began.Month() { // the test passes less time
		began = began.Add(-15 * time.Minute)
	}
	use := func(dollars int64) {
		t.Helper()
		frames++
		propose(t, s, &store.ApplyUsage{Meta: meta, Namespace: "ns_1", Stream: "shard/0", Incarnation: "ab", From: frames, To: frames, Rows: []*store.UsageRow{
			{HourNs: began.Truncate(time.Hour).UnixNano(), Queue: "q", Meter: uint32(billing.InputTokens), Quantity: dollars * 1_000_000},
		}})
	}
	limit := func(dollars money.Nano) {
		t.Helper()
		n := int64(dollars * money.Dollar)
		propose(t, s, &store.SetSpendLimit{Meta: meta, Org: "org_1", LimitNanoUsd: &n})
	}
	now := began
	r := New(Config{Store: s, Observations: NewObservations(time.Now, HostGrace), Now: func() time.Time { return now }, Logger: slog.New(slog.DiscardHandler), Plans: tokenPlans(t)})
	var book map[tenancy.OrgID]rated
	want := func(when string, ratedAt time.Time, alerted int64, held bool) {
		t.Helper()
		book = r.checkSpend(t.Context(), leading(t, s), book)
		status, err := s.SpendStatus(t.Context(), "org_1", time.Now())
		if err != nil || status.Limit == nil {
			t.Fatalf("%s: %+v, %v", when, status, err)
		}
		if at := book["org_1"].at; !at.Equal(ratedAt) || status.Limit.Alerted != alerted || (status.Limit.HeldNs != 0) != held {
			t.Errorf("%s: rated after %s, want %s; %d %% are reached, want %d; held: %v", when, at.Sub(began), ratedAt.Sub(began), status.Limit.Alerted, alerted, !held)
		}
		docs, err := s.Docs(t.Context(), 0, 10)
		if err != nil || len(docs) != 1 || (docs[0].Hold != "") != held {
			t.Errorf("%s: the documents are %+v, %v", when, docs, err)
		}
	}

	use(4)
	if book = r.checkSpend(t.Context(), leading(t, s), book); len(book) != 0 {
		t.Error("an organisation without a limit was rated")
	}
	limit(10)
	want("a first look", now, 0, false)
	use(1)
	now = now.Add(rateEvery - 1)
	want("too early", began, 0, false)
	now = now.Add(1)
	want("half", now, 50, false)
	last := now
	for range 3 {
		now = now.Add(rateEvery)
		if now.Truncate(time.Hour).Equal(last.Truncate(time.Hour)) { // an hour that has begun is a reason of its own
			want("nothing new", last, 50, false)
		} else {
			last = now
			want("a new hour", last, 50, false)
		}
	}
	use(5)
	now = now.Add(rateEvery)
	last = now
	want("reached", last, 100, true)
	propose(t, s, &store.RaiseSpendLimit{Meta: meta, Id: "r1", Org: "org_1", AmountNanoUsd: 1, Reason: "test", ExpiresNs: time.Now().Add(time.Hour).UnixNano()})
	now = now.Add(Tick) // less than a minute
	want("raised", last, 100, false)
	use(1)
	now = now.Add(rateEvery)
	last = now
	want("the raise is used up", last, 100, true)
	limit(20)
	now = now.Add(Tick)
	want("a higher limit", last, 100, false)

	// A rating that fails neither ends a hold nor is repeated at once.
	limit(1)
	now = now.Add(Tick)
	want("a lower limit", last, 100, true)
	r.cfg.Plans = &billing.PlanBook{} // has no version of any plan
	use(1)
	now = now.Add(rateEvery)
	last = now
	want("a rating that fails", last, 100, true)
	r.cfg.Plans = tokenPlans(t)
	now = now.Add(rateEvery - 1)
	want("too early to try again", last, 100, true)
	now = now.Add(1)
	want("tried again", now, 100, true)
}
