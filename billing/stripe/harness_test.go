package stripe

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/billing/stripe/stripefake"
)

var start = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// fixture is a fake Stripe, its clock and a client.
type fixture struct {
	*Client
	fake  *stripefake.Server
	clock *stripefake.Clock
	http  *http.Client
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	clock := stripefake.NewClock(start)
	fake := stripefake.New(stripefake.Config{Now: clock.Now, TaxPercent: 10})
	calls := &http.Client{Transport: direct{fake}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return &fixture{New(Config{Key: stripefake.DefaultKey, URL: fakeURL, HTTP: calls, Now: clock.Now}), fake, clock, calls}
}

// fakeURL is the URL of the fake, which no network has.
const fakeURL = "http://stripe.test"

// direct calls a handler without a network.
type direct struct{ http.Handler }

func (d direct) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	defer func() {
		if recover() != nil { // the handler closes the connection
			resp, err = nil, io.ErrUnexpectedEOF
		}
	}()
	incoming := r.Clone(r.Context())
	incoming.Host = r.URL.Host
	if incoming.Body == nil {
		incoming.Body = http.NoBody
	}
	answer := httptest.NewRecorder()
	d.ServeHTTP(answer, incoming)
	return answer.Result(), nil
}

// acme is the organisation of the tests.
var acme = Customer{Org: "org_acme", Name: "Acme GmbH", Email: "pay@acme.example", Address: Address{Line1: "Weg 1", City: "Köln", PostalCode: "50667", Country: "DE"}}

// customer makes acme's customer.
func (f *fixture) customer(t *testing.T) string {
	t.Helper()
	id, err := f.EnsureCustomer(t.Context(), acme)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// bill is an invoice of acme.
func bill(customer string) Bill {
	return Bill{
		Number: "2026-000007", Org: acme.Org, Customer: customer, Description: "Corvo, February 2026", TotalCents: 2469, Taxed: true,
		Items: []Item{{"output_tokens", "Output tokens", 219}, {"response_bytes", "Egress", 2350}, {"open_seconds", "Open time", 0}, {"credits", "Credits", -100}},
	}
}

// crashes runs work once for each call that it makes to Stripe, on a new fixture each time, and makes that call fail. The
// process crashes then, and work is repeated after the wait until it succeeds. A crash loses nothing but the response or the
// request. check sees the state at the end.
func crashes(t *testing.T, wait time.Duration, work func(*fixture) error, check func(t *testing.T, f *fixture)) {
	t.Helper()
	for _, kind := range []stripefake.FaultKind{stripefake.LoseResponse, stripefake.LoseRequest, stripefake.RateLimit} {
		for call := 0; ; call++ {
			f := newFixture(t)
			f.fake.Inject(stripefake.Fault{Kind: kind, Skip: call, RetryAfter: 2 * time.Second})
			err := work(f)
			if err == nil && call == 0 {
				t.Fatalf("fault %d: the first call did not fail", kind)
			}
			if err == nil { // every call has failed once
				f.fake.Heal()
				check(t, f)
				break
			}
			var answer *Error
			if !errors.Is(err, ErrUnavailable) || !errors.As(err, &answer) || answer.RetryAfter <= 0 {
				t.Fatalf("fault %d of call %d: %v", kind, call, err)
			}
			f.clock.Advance(wait)
			if err := work(f); err != nil {
				t.Fatalf("the repeat after fault %d of call %d: %v", kind, call, err)
			}
			check(t, f)
		}
	}
}

// byHand posts to the fake as an operator does in Stripe's dashboard. The parameters are "name=value".
func (f *fixture) byHand(t *testing.T, path string, params ...string) {
	t.Helper()
	form := url.Values{}
	for _, p := range params {
		name, value, _ := strings.Cut(p, "=")
		form.Add(name, value)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, fakeURL+path, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+stripefake.DefaultKey)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := f.http.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		t.Fatalf("%s %v: %d %s", path, params, resp.StatusCode, text)
	}
}

// waits are the times between a crash and its repeat: at once, and after Stripe has forgotten the idempotency keys.
var waits = map[string]time.Duration{"at once": 0, "after two days": 48 * time.Hour}
