package server

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
)

// recorder replaces the store.
type recorder struct {
	mu      sync.Mutex
	tried   []*store.RecordRefusals
	ops     []*store.RecordRefusals
	failing error
}

func (r *recorder) record(_ context.Context, o *store.RecordRefusals) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tried = append(r.tried, o)
	if err := o.Validate(); err != nil {
		return err
	}
	if r.failing == nil {
		r.ops = append(r.ops, o)
	}
	return r.failing
}

// commits returns the ops that were proposed and those that were recorded.
func (r *recorder) commits() (tried, ops []*store.RecordRefusals) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.tried), slices.Clone(r.ops)
}

func (r *recorder) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failing = err
}

// recorded counts the rows of an organisation and the requests that they record.
func (r *recorder) recorded(org string) (rows int, requests uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range r.ops {
		for _, one := range o.Refusals {
			if one.Org == org {
				rows++
				requests += one.Count
			}
		}
	}
	return rows, requests
}

func gather(r *recorder) *refusals {
	return &refusals{record: r.record, log: slog.New(slog.NewTextHandler(io.Discard, nil)), budgets: map[budgetKey]*budget{}}
}

// state returns the number of waiting kinds of requests, and whether a run is scheduled.
func (q *refusals) state() (waiting int, planned bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting, q.timer != nil
}

var acme, other = budgetKey{org: "acme", known: true}, budgetKey{org: "other", known: true}

func TestRefusalsThatAreAlikeAreOneRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		q := gather(&r)
		for range 1000 {
			q.add(acme, refusal{"k", "POST /a", api.Forbidden})
			q.add(budgetKey{}, refusal{action: failedAuthentication, code: api.Unauthorized})
		}
		time.Sleep(refusalWindow - 1)
		synctest.Wait()
		if tried, _ := r.commits(); len(tried) != 0 {
			t.Error("a commit before the window is over")
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		tried, _ := r.commits()
		if _, planned := q.state(); len(tried) != 1 || planned {
			t.Errorf("%d commits, want one and no timer", len(tried))
		}
		for _, org := range []string{"acme", ""} {
			if rows, all := r.recorded(org); rows != 1 || all != 1000 {
				t.Errorf("%q has %d rows of %d requests", org, rows, all)
			}
		}
	})
}

// A flood of different requests adds as many rows as the budget has, with one commit a second at most. Every
// request is counted. The rows of another organisation do not wait for the flood.
func TestAFloodOfRefusalsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		q := gather(&r)
		const seconds = 1200
		sent := uint64(0)
		for s := range seconds {
			for i := range 2 * maxRefusalKinds {
				q.add(acme, refusal{"k", fmt.Sprintf("POST /%d/%d", s, i), api.Forbidden})
				sent++
			}
			if s == seconds/2 {
				q.add(other, refusal{"o", "POST /a", api.Conflict})
			}
			if waiting, _ := q.state(); waiting > maxRefusalKinds+1 {
				t.Fatalf("%d kinds wait", waiting)
			}
			time.Sleep(time.Second)
			if rows, _ := r.recorded("other"); s > seconds/2+2 && rows != 1 {
				t.Fatalf("the other organisation's refusal is not recorded")
			}
		}
		synctest.Wait()
		rows, _ := r.recorded("acme")
		if most := refusalBurst + int(seconds*time.Second/refusalEvery) + 1; rows > most || rows < most-3 {
			t.Errorf("%d rows in %d seconds, want at most %d", rows, seconds, most)
		}
		if tried, _ := r.commits(); len(tried) > seconds {
			t.Errorf("%d commits in %d seconds", len(tried), seconds)
		}
		time.Sleep(time.Duration(maxRefusalKinds+2) * refusalEvery)
		synctest.Wait()
		waiting, planned := q.state()
		if _, all := r.recorded("acme"); all != sent || planned || waiting != 0 {
			t.Errorf("%d of %d requests are counted, %d wait", all, sent, waiting)
		}
	})
}

// The waiting requests of all organisations are bounded together. A request above the bound is only counted.
// An op never exceeds the store's limit.
func TestWaitingRefusalsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := recorder{failing: api.Errorf(api.LeaderUnavailable, "no leader")}
		q := gather(&r)
		sent := map[string]uint64{}
		for i := range maxWaitingRefusals + 1 {
			org := fmt.Sprint("org", i%(maxWaitingRefusals/32))
			q.add(budgetKey{tenancy.OrgID(org), true}, refusal{"k", fmt.Sprint("POST /", i), api.Forbidden})
			sent[org]++
		}
		q.mu.Lock()
		waiting, lost := q.waiting, q.budgets[budgetKey{"org0", true}].lost
		q.mu.Unlock()
		if waiting != maxWaitingRefusals || lost != 1 {
			t.Errorf("%d kinds wait, %d are only counted", waiting, lost)
		}
		r.fail(nil)
		time.Sleep(time.Hour)
		synctest.Wait()
		for org, n := range sent {
			if _, all := r.recorded(org); all != n {
				t.Errorf("%s: %d of %d requests are counted", org, all, n)
			}
		}
	})
}

// Without a leader, the same op is proposed again under its batch id. A shutdown records all waiting requests
// regardless of the budgets.
func TestRefusalsWaitForALeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := recorder{failing: api.Errorf(api.LeaderUnavailable, "no leader")}
		q := gather(&r)
		q.add(acme, refusal{"k", "POST /a", api.Forbidden})
		time.Sleep(time.Minute)
		for i := range 3 * maxRefusalKinds {
			q.add(acme, refusal{"k", fmt.Sprint("POST /", i), api.Forbidden})
		}
		r.fail(nil)
		q.close(t.Context())
		q.add(acme, refusal{"k", "POST /late", api.Forbidden})
		if _, all := r.recorded("acme"); all != 1+3*maxRefusalKinds {
			t.Errorf("%d requests are recorded", all)
		}
		tried, ops := r.commits()
		if len(tried) < 3 || len(ops) < 2 {
			t.Fatalf("%d ops were proposed, %d recorded", len(tried), len(ops))
		}
		if tried[0] != tried[1] {
			t.Errorf("the op %+v was proposed again as %+v", tried[0], tried[1])
		}
		if ops[0].Batch == ops[1].Batch {
			t.Errorf("two ops have the batch id %q", ops[0].Batch)
		}
	})
}

// TestRefusedRequestsAreAudited sends requests that are refused and reads their rows in the audit log.
func TestRefusedRequestsAreAudited(t *testing.T) {
	t.Parallel()
	f, admin := start(t)
	f.namespace("acme", "orders")
	_, adminID, _ := keyring.Parse(admin)
	_, operatorID, _ := keyring.Parse(f.operator)
	const tokens = "/cloud/v1/orgs/acme/keys"
	readerID, reader := f.made(tokens, admin, "readonly")
	for _, c := range []struct {
		method, path, by, body string
		status                 int
		header                 []string
	}{
		{"POST", tokens, reader, `{"name":"x"}`, 403, nil},
		{"POST", tokens, reader, `{"name":"y"}`, 403, nil},
		{"GET", "/cloud/v1/hosts", reader, ``, 403, nil},
		{"PUT", tokens + "/" + adminID, admin, `{"roles":["readonly"]}`, 409, nil},
		{"PUT", tokens + "/" + readerID, admin, `{"roles":["readonly"]}`, 412, []string{`If-Match: "77"`}},
		{"POST", tokens, admin, `{"roles":["king"]}`, 400, nil},
		{"GET", tokens + "/nobody", admin, ``, 404, nil}, // reads that find nothing are not recorded
		{"POST", "/cloud/v1/orgs", f.operator, `{"name":"acme"}`, 409, nil},
		{"GET", "/cloud/v1/orgs", "", ``, 401, nil},
		{"POST", tokens, "nonsense", ``, 401, nil},
		{"POST", "/fleet/v1/report", "nonsense", ``, 401, nil},
	} {
		if a := f.send(c.method, c.path, c.by, c.body, c.header...); a.status != c.status {
			t.Errorf("%s %s: %d %s, want %d", c.method, c.path, a.status, a.body, c.status)
		}
	}
	f.server.Close(t.Context()) // it records them now
	rows, err := f.store.Audit(t.Context(), tenancy.EveryOrg, 0, store.MaxPage)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for _, r := range rows {
		if r.Refused != "" {
			got[fmt.Sprintf("%.4s %s %s %s", r.Org, r.Principal, r.Action, r.Refused)] += r.Count
		}
	}
	want := map[string]int64{
		"org_ " + readerID + " POST /cloud/v1/orgs/{org}/keys FORBIDDEN":              2,
		"org_ " + readerID + " GET /cloud/v1/hosts FORBIDDEN":                         1,
		"org_ " + adminID + " PUT /cloud/v1/orgs/{org}/keys/{id} CONFLICT":            1,
		"org_ " + adminID + " PUT /cloud/v1/orgs/{org}/keys/{id} PRECONDITION_FAILED": 1,
		"org_ " + adminID + " POST /cloud/v1/orgs/{org}/keys VALIDATION_ERROR":        1,
		" " + operatorID + " POST /cloud/v1/orgs CONFLICT":                            1,
		"  authenticate UNAUTHORIZED":                                                 3,
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("recorded are\n%v, want\n%v", got, want)
	}
	if err := f.store.VerifyAudit(t.Context()); err != nil {
		t.Error(err)
	}
	// The organisation sees its own rows.
	a := f.send("GET", "/cloud/v1/orgs/acme/audit", admin, "")
	text := string(a.body)
	if a.status != http.StatusOK || !strings.Contains(text, `"refused":"FORBIDDEN","count":2`) {
		t.Errorf("%d %s", a.status, text)
	}
	for _, foreign := range []string{operatorID + `","action":"POST`, failedAuthentication} {
		if strings.Contains(text, foreign) {
			t.Errorf("the organisation sees %q: %s", foreign, text)
		}
	}
}
