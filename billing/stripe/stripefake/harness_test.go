package stripefake

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

var start = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// fixture is a fake with a clock, and a client of it.
type fixture struct {
	*Server
	t     *testing.T
	clock *Clock
	url   string
	http  *http.Client
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	clock := NewClock(start)
	f := &fixture{Server: New(Config{Now: clock.Now, TaxPercent: 19}), t: t, clock: clock}
	web := httptest.NewServer(f.Server)
	t.Cleanup(web.Close)
	// Without kept connections the transport does not repeat a request whose response is lost.
	f.http = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	f.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	f.url = web.URL
	return f
}

// values makes parameters of pairs "name=value".
func values(pairs ...string) url.Values {
	v := url.Values{}
	for _, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		v.Add(name, value)
	}
	return v
}

// try sends a request under an idempotency key and returns its status, headers and body. The status is 0 if the response was
// lost.
func (f *fixture) try(key, method, path string, params ...string) (int, http.Header, object) {
	f.t.Helper()
	target, body := f.url+path, ""
	if form := values(params...).Encode(); method == http.MethodPost {
		body = form
	} else if form != "" {
		target += "?" + form
	}
	r, err := http.NewRequestWithContext(f.t.Context(), method, target, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+DefaultKey)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	resp, err := f.http.Do(r)
	if err != nil {
		return 0, nil, nil
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	var o object
	if err := json.Unmarshal(text, &o); err != nil {
		f.t.Fatalf("%s %s: %v: %s", method, path, err, text)
	}
	return resp.StatusCode, resp.Header, o
}

// do sends a request that must succeed.
func (f *fixture) do(method, path string, params ...string) object {
	f.t.Helper()
	status, _, o := f.try("", method, path, params...)
	if status != http.StatusOK {
		f.t.Fatalf("%s %s %v: %d %v", method, path, params, status, o)
	}
	return o
}

// refuses sends a request that must fail with a status and a code.
func (f *fixture) refuses(status int, code, method, path string, params ...string) {
	f.t.Helper()
	got, _, o := f.try("", method, path, params...)
	e, _ := o["error"].(object)
	if c, _ := e["code"].(string); got != status || c != code {
		f.t.Errorf("%s %s %v: %d %v, want %d %s", method, path, params, got, o, status, code)
	}
}

// customer makes a customer with an address and returns its id.
func (f *fixture) customer(more ...string) string {
	f.t.Helper()
	return f.do("POST", "/v1/customers", append([]string{"email=a@example.com", "metadata[corvo_org]=org_1", "address[country]=DE"}, more...)...)["id"].(string)
}

// data returns the objects of a list.
func data(list object) (all []object) {
	for _, o := range list["data"].([]any) {
		all = append(all, o.(object))
	}
	return all
}
