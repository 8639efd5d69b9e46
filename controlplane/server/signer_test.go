package server

import (
	"crypto/rand"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/tenancy/token"
)

// The signer replaces a key when its period is over. The signatures of the old key stay trusted as long as
// they are valid.
func TestKeysAreReplacedInTime(t *testing.T) {
	t.Parallel()
	f := startFront(t)
	g := f.server.cfg.Signer
	first, err := g.Key()
	if err != nil {
		t.Fatal(err)
	}
	text, err := token.Sign(first, token.Claims{Subject: "host_1", Role: "host", Audience: token.ControlPlane}, f.now())
	if err != nil {
		t.Fatal(err)
	}
	f.ahead.Add(int64(DefaultSigningPeriod))
	if due := g.due(); due > 0 {
		t.Errorf("after its period the key signs on for %v", due)
	}
	// A restart finds that a rotation is due.
	again, err := OpenSigner(t.Context(), SignerConfig{Store: f.store, Now: f.now, Rand: rand.Reader})
	if err != nil {
		t.Fatal(err)
	}
	last, err := token.Sign(first, token.Claims{Subject: "host_1", Role: "host", Audience: token.ControlPlane}, f.now())
	if err != nil {
		t.Fatal(err)
	}
	f.ahead.Add(int64(Announce))
	second, err := again.Key()
	if err != nil || second.ID == first.ID {
		t.Errorf("%s signs after %s, %v", second.ID, first.ID, err)
	}
	f.ahead.Add(int64(token.Lifetime - Announce - time.Minute))
	set, _ := again.Trusted()
	if _, err := set.Verify(last, token.ControlPlane, f.now()); err != nil {
		t.Errorf("the last that the old key signed: %v", err)
	}
	if _, err := set.Verify(text, token.ControlPlane, f.now()); api.CodeOf(err) != api.Unauthorized {
		t.Errorf("one whose time is over: %v", err)
	}
	f.ahead.Add(int64(Trust))
	if set, jwks := again.Trusted(); set.Len() != 1 || string(jwks) != string(token.NewSet(second.Public()).JWKS()) {
		t.Errorf("%d keys are trusted when the old one's time is over", set.Len())
	}
	for period, ok := range map[time.Duration]bool{MinSigningPeriod: true, MinSigningPeriod - 1: false} {
		if _, err := OpenSigner(t.Context(), SignerConfig{Store: f.store, Period: period, Now: f.now, Rand: rand.Reader}); (err == nil) != ok {
			t.Errorf("a period of %v: %v", period, err)
		}
	}
	// Even at the shortest period, the store has room for all trusted keys.
	if most := int(Trust/MinSigningPeriod) + 1; most > store.MaxSigningKeys || most > token.MaxSetKeys {
		t.Errorf("%d keys can be trusted at once", most)
	}
}

// The test reads the times of a usage query and their defaults.
func TestUsagePeriod(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 2, 11, 10, 20, 30, 0, time.UTC)
	for query, want := range map[string]string{
		"":                                 "2026-01-12T11:00:00Z 2026-02-11T11:00:00Z",
		"from=2026-02-01":                  "2026-02-01T00:00:00Z 2026-02-11T11:00:00Z",
		"to=2026-02-01":                    "2026-01-02T00:00:00Z 2026-02-01T00:00:00Z",
		"from=2026-02-01T12:34:56Z":        "2026-02-01T12:00:00Z 2026-02-11T11:00:00Z",
		"from=2026-02-01T12:34:56%2B05:30": "2026-02-01T07:00:00Z 2026-02-11T11:00:00Z",
		"from=2026-02-11&to=2026-02-12":    "2026-02-11T00:00:00Z 2026-02-12T00:00:00Z",
		"from=2026-02-12":                  "",
		"from=1969-12-31":                  "",
		"to=2300-01-01":                    "",
		"from=2001-01-01":                  "",
	} {
		var q store.UsageQuery
		err := period(&http.Request{URL: &url.URL{RawQuery: query}}, &q, now)
		got := ""
		if err == nil {
			got = time.Unix(0, q.FromNs).UTC().Format(time.RFC3339) + " " + time.Unix(0, q.ToNs).UTC().Format(time.RFC3339)
		}
		if got != want {
			t.Errorf("%q is %q, %v; want %q", query, got, err, want)
		}
	}
}

// A usage query reports its faults, but not faults that follow from others.
func TestUsagePeriodFaults(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 2, 11, 10, 20, 30, 0, time.UTC)
	for query, want := range map[string]string{
		"from=x":                            "from",
		"from=x&to=1999-01-01":              "from",
		"to=x":                              "to",
		"to=x&from=2026-02-12":              "to",
		"to=x&from=2001-01-01":              "to",
		"from=x&to=x&group_by=mood":         "from group_by to",
		"from=2026-02-12&to=2026-02-12":     "from",
		"from=2001-01-01&group_by=mood":     "from group_by",
		"group_by=mood":                     "group_by",
		"from=2026-02-12&group_by=provider": "from",
	} {
		var q store.UsageQuery
		var e *api.Error
		var told []string
		if errors.As(period(&http.Request{URL: &url.URL{RawQuery: query}}, &q, now), &e) {
			for _, field := range e.Details["fields"].([]api.FieldError) {
				told = append(told, field.Field)
			}
		}
		if got := strings.Join(told, " "); got != want {
			t.Errorf("%q is refused for %q, want %q", query, got, want)
		}
	}
}

// The test compares If-Match values that match a version, any version or none.
func TestExpected(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]int64{
		`"5"`: 5, `"4"`: 4, `*`: 0, `"3", "5"`: 5, `"3","4"`: 3, `W/"5", "5"`: 5,
		`W/"5"`: -1, `5`: -1, `"five"`: -1, `""`: -1, `"-5"`: -1, "": -1,
	} {
		r := httptest.NewRequest("PATCH", "/", nil)
		r.Header.Set("If-Match", header)
		got, err := expected(r, 5)
		if api.CodeOf(err) == api.PreconditionFailed {
			got = -1
		}
		if got != want {
			t.Errorf("If-Match %s expects %d, %v; want %d", header, got, err, want)
		}
	}
	if got, err := expected(httptest.NewRequest("PATCH", "/", nil), 5); got != 0 || err != nil {
		t.Errorf("without If-Match %d is expected, %v", got, err)
	}
}
