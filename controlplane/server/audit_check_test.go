package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/tenancy"
)

// TestCheckAudit checks the audit log by page. Only operators may.
func TestCheckAudit(t *testing.T) {
	t.Parallel()
	f, admin := start(t)
	const path = "/cloud/v1/audit/verify"
	rows, err := f.store.Audit(t.Context(), tenancy.EveryOrg, 0, MaxPage)
	if err != nil || len(rows) < 4 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	var checks []api.AuditCheck
	for cursor := ""; ; {
		a := f.send("GET", path+"?limit=2&cursor="+cursor, f.operator, "")
		var c api.AuditCheck
		if err := json.Unmarshal(a.body, &c); err != nil || a.status != http.StatusOK || c.Broken != nil {
			t.Fatalf("%d %s, %v", a.status, a.body, err)
		}
		if checks = append(checks, c); c.Cursor == "" {
			break
		}
		cursor = c.Cursor
	}
	last, end := checks[len(checks)-1], rows[len(rows)-1]
	if len(checks) != len(rows)/2+1 || checks[0].Verified != 2 {
		t.Errorf("%+v of %d rows", checks, len(rows))
	}
	if hash := fmt.Sprintf("%x", end.Hash); last.Verified != end.Seq || last.Hash != hash {
		t.Errorf("the last check ends at %d with %s, want %d with %s", last.Verified, last.Hash, end.Seq, hash)
	}
	whole, err := f.cloud(f.operator).VerifyAudit(t.Context())
	if err != nil || whole != last {
		t.Errorf("%+v, %v, want %+v", whole, err, last)
	}
	for _, c := range []struct {
		query, by string
		status    int
	}{
		{"", admin, 403},
		{"", "", 401},
		{"?limit=1000", f.operator, 200},
		{"?limit=1001", f.operator, 400},
		{"?limit=0", f.operator, 400},
		{"?cursor=x", f.operator, 400},
		{"?cursor=" + cursorOf(t, "audit check", "1 00 00"), f.operator, 400},
		{"?cursor=" + cursorOf(t, "orgs", "1 00 00"), f.operator, 400},
	} {
		if a := f.send("GET", path+c.query, c.by, ""); a.status != c.status {
			t.Errorf("%s: %d %s, want %d", c.query, a.status, a.body, c.status)
		}
	}
	// After a cursor with a forged hash, the next row fails verification.
	forged := cursorOf(t, "audit check", fmt.Sprintf("1 %064x %064x", 7, 0))
	a := f.send("GET", path+"?cursor="+forged, f.operator, "")
	var c api.AuditCheck
	if err := json.Unmarshal(a.body, &c); err != nil {
		t.Fatal(err)
	}
	if c.Broken == nil || c.Broken.Seq != 2 || c.Verified != 1 {
		t.Errorf("%d %s", a.status, a.body)
	}
}

func cursorOf(t *testing.T, list, after string) string {
	t.Helper()
	text, err := cursorAfter(list, after)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
