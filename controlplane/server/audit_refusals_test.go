package server

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
)

// TestRefusalsBecomeRows checks that the op of refused requests is valid. One of its rows counts the requests
// for which there was no room.
func TestRefusalsBecomeRows(t *testing.T) {
	t.Parallel()
	f, _ := start(t)
	acme := quotaKey{org: "acme", known: true}
	commit := f.server.recordRefusals("", []refusalRow{
		{Quota: acme, Count: 7, LeftOut: true},
		{Quota: acme, Kind: refusal{"k", "POST /a", api.Forbidden}, Count: 2},
		{Kind: refusal{action: failedAuthentication, code: api.Unauthorized}, Count: 3},
	})
	for range 2 { // a repeat adds nothing
		if err := commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := f.store.Audit(t.Context(), tenancy.EveryOrg, 0, store.MaxPage)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range rows {
		if r.Refused != "" {
			got = append(got, fmt.Sprintf("%s %s %s %s %d", r.Org, r.Principal, r.Action, r.Refused, r.Count))
		}
	}
	want := []string{"acme  left out RATE_LIMITED 7", "acme k POST /a FORBIDDEN 2", "  authenticate UNAUTHORIZED 3"}
	if !slices.Equal(got, want) {
		t.Errorf("the rows are %q, want %q", got, want)
	}
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
