package server

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/tenancy"
)

// TestOperatorAudit reads, as an operator and page by page, the whole audit log, the rows of an organisation
// and the rows without an organisation. A tenant may not use this route.
func TestOperatorAudit(t *testing.T) {
	t.Parallel()
	f, admin := start(t)
	other := f.org("other")
	f.send("GET", "/cloud/v1/orgs", "nobody", "")
	f.server.Close(t.Context()) // the failure to authenticate is recorded
	c := f.cloud(f.operator)
	read := func(org string) (rows []api.AuditRow, orgs []string) {
		t.Helper()
		rows, err := c.OperatorAudit(t.Context(), org)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			if !slices.Contains(orgs, r.Org) {
				orgs = append(orgs, r.Org)
			}
		}
		slices.Sort(orgs)
		return rows, orgs
	}
	stored, err := f.store.Audit(t.Context(), tenancy.EveryOrg, 0, MaxPage)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"", f.acme(), other}
	slices.Sort(want)
	all, orgs := read("")
	if len(all) != len(stored) || !slices.Equal(orgs, want) {
		t.Errorf("%d rows of %q, want %d of %q", len(all), orgs, len(stored), want)
	}
	if rows, orgs := read("other"); len(rows) != 1 || !slices.Equal(orgs, []string{other}) {
		t.Errorf("of an organisation: %+v", rows)
	}
	rows, orgs := read(client.NoOrg)
	if !slices.Equal(orgs, []string{""}) || !slices.ContainsFunc(rows, func(r api.AuditRow) bool { return r.Action == failedAuthentication && r.Refused == api.Unauthorized }) {
		t.Errorf("of no organisation: %+v", rows)
	}
	const path = "/cloud/v1/audit"
	for _, c := range []struct {
		query, by string
		status    int
	}{
		{"", admin, 403}, {"", "", 401}, {"?org=nobody", f.operator, 404}, {"?limit=0", f.operator, 400}, {"?limit=1001", f.operator, 400},
		{"?cursor=" + cursorOf(t, "audit of *", "1"), f.operator, 200},
		{"?cursor=" + cursorOf(t, "audit of *", "x"), f.operator, 400},
		{"?org=-&cursor=" + cursorOf(t, "audit of *", "1"), f.operator, 400},
		{"?colour=red", f.operator, 400},
	} {
		if a := f.send("GET", path+c.query, c.by, ""); a.status != c.status {
			t.Errorf("%s: %d %s, want %d", c.query, a.status, a.body, c.status)
		}
	}
	var seen []int64
	for cursor := ""; ; {
		a := f.send("GET", path+"?limit=2&cursor="+cursor, f.operator, "")
		var page api.Page[api.AuditRow]
		if err := json.Unmarshal(a.body, &page); err != nil || a.status != 200 || len(page.Items) > 2 {
			t.Fatalf("%d %s, %v", a.status, a.body, err)
		}
		for _, r := range page.Items {
			seen = append(seen, r.Seq)
		}
		if cursor = page.Cursor; cursor == "" {
			break
		}
	}
	// The refusals of the requests above may be recorded by now, too.
	if len(seen) < len(stored) || !slices.IsSorted(seen) {
		t.Errorf("pages have the rows %v, want %d", seen, len(stored))
	}
}
