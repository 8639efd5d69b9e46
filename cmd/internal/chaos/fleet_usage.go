package chaos

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/billing/money"
)

// gatewayRequests counts the requests of one namespace to one gateway. A gateway charges a request if a host has answered
// it. A client knows that for each success, cannot know it without an answer, and does not see who refused a request.
type gatewayRequests struct {
	next http.RoundTripper

	sent     atomic.Int64
	finished atomic.Int64 // answered or failed
	answered atomic.Int64 // with success: these are charged
	possible atomic.Int64 // failed, except those that reached no gateway: these may be charged
}

func (g *gatewayRequests) RoundTrip(r *http.Request) (*http.Response, error) {
	g.sent.Add(1)
	defer g.finished.Add(1)
	answer, err := g.next.RoundTrip(r)
	var dial *net.OpError
	switch {
	case err == nil && answer.StatusCode < http.StatusMultipleChoices:
		g.answered.Add(1)
	case err == nil || !errors.As(err, &dial) || dial.Op != "dial":
		g.possible.Add(1)
	}
	return answer, err
}

// requests holds the outcomes of all requests of the namespace, and the losses of killed gateways.
type requests struct {
	by       [gateways]*gatewayRequests
	settled  [gateways]int64 // answered by each gateway when the ledger last had all requests
	lost     int64           // answered requests that killed gateways may not have delivered
	possible int64           // requests that were under way when a gateway was killed; the client may have repeated them
}

// killed adds the possible losses of a gateway that has been killed. A request may finish meanwhile, so finished is read
// first and answered last.
func (r *requests) killed(gateway int) {
	g := r.by[gateway]
	finished := g.finished.Load()
	open := g.sent.Load() - finished
	r.lost += g.answered.Load() + open - r.settled[gateway]
	r.possible += open
	r.settled[gateway] = g.answered.Load()
}

// bounds returns the least and the most requests that the ledger may have once all is delivered.
func (r *requests) bounds() (least, most int64) {
	least, most = -r.lost, r.possible
	for _, g := range r.by {
		answered := g.answered.Load()
		least += answered
		most += answered + g.possible.Load()
	}
	return least, most
}

// Kill ends a process with SIGKILL. A gateway loses the requests that it has counted and not delivered.
func (f *Fleet) Kill(t testing.TB, i int) {
	t.Helper()
	f.processes.Kill(t, i)
	if gateway := i - controls; gateway >= 0 && gateway < gateways {
		f.requests.killed(gateway)
	}
}

// SettleRequests pauses the load until the ledger has all its requests. A gateway that is killed next can lose only
// later ones.
func (f *Fleet) SettleRequests(t testing.TB, l *Load) {
	t.Helper()
	l.pause(func() {
		f.awaitRequests(t)
		for i, g := range f.requests.by {
			f.requests.settled[i] = g.answered.Load()
		}
	})
}

// awaitRequests waits until the ledger has the requests of the namespace. The load must be paused or at its end.
func (f *Fleet) awaitRequests(t testing.TB) {
	t.Helper()
	least, most := f.requests.bounds()
	f.awaitUsage(t, "all requests in the ledger", func(u api.UsageTotals) bool {
		if u.Requests.Compare(money.CountOf(most)) > 0 {
			t.Fatalf("the ledger has %v requests, and hosts can have answered %d at most", u.Requests, most)
		}
		if u.Requests.Compare(money.CountOf(least)) < 0 {
			return false
		}
		t.Logf("the ledger has %v requests, and clients know of %d to %d", u.Requests, least, most)
		return true
	})
}

// awaitUsage waits until the sums of the namespace in the ledger hold. A sum that is too great must end the test,
// because it stays so.
func (f *Fleet) awaitUsage(t testing.TB, what string, holds func(u api.UsageTotals) bool) {
	t.Helper()
	f.await(t, what, func(ctx context.Context) bool {
		u, err := f.Operator().NamespaceUsage(ctx, f.Namespace, client.UsageQuery{})
		return err == nil && holds(u.Totals)
	})
}

// AwaitUsage waits until the ledger has the usage of a load that has finished: one report with one token for each ack,
// and each request that a host has answered, except those that a killed gateway had not delivered.
func (f *Fleet) AwaitUsage(t testing.TB, l *Load) {
	t.Helper()
	acks := money.CountOf(int64(len(l.History.with(acked))))
	f.awaitUsage(t, "usage of all acks in the ledger", func(u api.UsageTotals) bool {
		if u.InputTokens.Compare(acks) > 0 || u.Reports.Compare(acks) > 0 || u.RejectedReports.Compare(money.Count{}) > 0 {
			t.Fatalf("the ledger has %v tokens of %v reports, and %v rejected reports; %v acks reported one token each", u.InputTokens, u.Reports, u.RejectedReports, acks)
		}
		return u.InputTokens == acks && u.Reports == acks
	})
	f.awaitRequests(t)
}
