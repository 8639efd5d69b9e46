package store

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
)

// everyOp returns one op of each kind, in an order in which each changes something, with the audit row that
// it leaves; "" = none.
func everyOp() []struct {
	op  op
	row string
} {
	protect := true
	signing := &AddSigningKey{Meta: by("op"), Id: "sk1", Seed: hash("sk1")}
	correctingEarly := func(id string) *ProposeCorrection {
		o := correcting(id, 1)
		o.HourNs = 0 // the hour of other tests has not begun
		return o
	}
	rotate := &RotateCredential{Meta: by("token"), OldId: "k1", NewId: "k2", NewHash: hash("k2"), OldExpiresNs: epochNs + 1}
	return []struct {
		op  op
		row string
	}{
		{&StartTerm{Meta: by("engine")}, ""},
		{newOrg("acme"), "org_acme op create-org org_acme"},
		{newHost("h1"), " op create-host host_h1"},
		{start("h1", "h1"), " cred_h1 join-host host_h1"},
		{newNamespace("org_acme", "a"), "org_acme token create-namespace ns_a"},
		{place("a", "h1"), "org_acme reconciler place-namespace ns_a"},
		{found("a"), "org_acme reconciler found-namespace ns_a"},
		{settle("a"), "org_acme reconciler settle-namespace ns_a"},
		{newKey(keyring.Namespace, "ns_a", "k1"), "org_acme token create-credential k1"},
		{newKey(keyring.Org, "org_acme", "t1"), "org_acme token create-credential t1"},
		{newKey(keyring.CloudOperator, "", "o1"), " token create-credential o1"},
		{&SetCredential{Meta: by("token"), Id: "k1", Name: "n", Roles: []string{"worker"}, Enabled: true, JudgedVersion: 1}, "org_acme token set-credential k1"},
		{rotate, "org_acme token rotate-credential k1"},
		{&RevokeCredential{Meta: by("token"), Id: "k2"}, "org_acme token revoke-credential k2"},
		{&RevokeCredential{Meta: by("op"), Id: "cred_h1"}, " op revoke-credential cred_h1"},
		{frame("ns_a", 1, 1, usageRow("q", "m", 1)), ""},
		{&RecordClaims{Meta: by("reconciler"), Claims: []*UsageClaim{claimOf("h1", 0, 1)}}, ""},
		{signing, " op add-signing-key sk1"},
		{&UpdateNamespace{Meta: by("token"), Id: "ns_a", DeletionProtection: &protect}, "org_acme token update-namespace ns_a"},
		{&UpdateNamespace{Meta: by("token"), Id: "ns_a", DeletionProtection: new(bool)}, "org_acme token update-namespace ns_a"},
		{recovery("a", 1, "h1"), "org_acme op recover-namespace ns_a"},
		{&PauseReconcile{Meta: by("op"), Id: "ns_a"}, "org_acme op pause-reconcile ns_a"},
		{&PauseReconcile{Meta: by("other"), Id: "ns_a"}, ""}, // a repeat
		{&ResumeReconcile{Meta: by("op"), Id: "ns_a"}, "org_acme op resume-reconcile ns_a"},
		{&ResumeReconcile{Meta: by("op"), Id: "ns_a"}, ""},
		{putRole("ns_a", "auditor", true, "job.read"), "org_acme token put-role ns_a/auditor"},
		{dropRole("ns_a", "auditor"), "org_acme token delete-role ns_a/auditor"},
		{deletion("a"), "org_acme token delete-namespace ns_a"},
		{aside("a", 2, 3), "org_acme host set-aside-usage ns_a"},
		{&RemoveAsideUsage{Meta: by("op"), Seq: 24}, "org_acme op remove-aside-usage ns_a/24"},
		{atGeneration(3, removal("a")), "org_acme reconciler remove-namespace ns_a"},
		{newFleetRoot("root"), " op add-fleet-root " + newFleetRoot("root").Fingerprint},
		{rotation("second", 0), " op rotate-fleet-root " + newFleetRoot("second").Fingerprint},
		{rotation("third", 0), ""}, // a repeat
		{switchTo("second", false), " op switch-fleet-root " + newFleetRoot("second").Fingerprint},
		{switchTo("second", false), ""},
		{retirement("root"), " op retire-fleet-root " + newFleetRoot("root").Fingerprint},
		{drain("h1"), " op drain-host host_h1"},
		{drain("h1"), ""}, // a repeat
		{undrain("h1"), " op undrain-host host_h1"},
		{undrain("h1"), ""},
		{dropHost("h1"), " op remove-host host_h1"},
		{&RaiseLevel{Meta: by("leader"), Level: FeatureLevel}, ""}, // it is in force
		{&RemoveProcess{Meta: by("op"), Id: "control.2"}, " op remove-process control.2"},
		{byOwner(billing.PayAsYouGo), "org_acme owner set-plan org_acme/payg"},
		{credited("acme", "c1", MaxCredit), "org_acme op grant-credit c1"},
		{credited("acme", "c1", MaxCredit), ""}, // a repeat
		{approving("o1", "c1"), "org_acme o1 approve-request c1"},
		{revoked("c1"), "org_acme op revoke-credit c1"},
		{correctingEarly("u1"), "org_acme op propose-correction u1"},
		{correctingEarly("u1"), ""}, // a repeat
		{approvingCorrection("o1", "u1"), "org_acme o1 approve-request u1"},
		{correctingEarly("u2"), "org_acme op propose-correction u2"},
		{rejecting("op", "u2"), "org_acme op reject-correction u2"},
		{closing("2023-10"), " op close-month 2023-10"},
		{limited("acme", 1000), "org_acme owner set-spend-limit org_acme/0.000001"},
		{limited("acme", 1000), ""}, // a repeat
		{raiseOf("acme"), "org_acme owner raise-spend-limit r1"},
		{raiseOf("acme"), ""}, // a repeat
		{&RecordSpend{Meta: by("reconciler"), Org: "org_acme", MonthNs: monthOf(epochNs), SpendNanoUsd: 1000}, "org_acme reconciler record-spend org_acme/2023-11/50%"},
		{&RecordSpend{Meta: by("reconciler"), Org: "org_acme", MonthNs: monthOf(epochNs), SpendNanoUsd: 1000}, ""}, // nothing new
		{refusals("b1", 1), "org_acme token POST /x0 "},
	}
}

// Every change leaves its row in its own transaction. Nothing else leaves a row.
func TestEveryChangeIsAudited(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	met := map[string]bool{}
	last := int64(0)
	try := func(o op, row string) {
		t.Helper()
		w.ok(o)
		met[table.Of(o).Name] = true
		rows, err := w.store().Audit(t.Context(), tenancy.EveryOrg, last, MaxPage)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range rows {
			got = append(got, fmt.Sprintf("%s %s %s %s", r.Org, r.Principal, r.Action, r.Target))
			if last = r.Seq; r.AtNs != w.clockNs {
				t.Errorf("row %d is of %d", r.Seq, r.AtNs)
			}
		}
		if strings.Join(got, ", ") != row {
			t.Errorf("%T left %q, want %q", o, got, row)
		}
	}
	for _, c := range everyOp() {
		if _, grants := c.op.(*GrantCredit); grants {
			w.pass(1) // the key of who approves is older
		}
		try(c.op, c.row)
	}
	w.goTo(december + int64(billing.CloseGrace))
	try(w.closing("org_acme"), "org_acme closer finalise-invoice "+InvoiceNumber(1))
	for _, k := range table.Rows() {
		if !met[k.Name] {
			t.Errorf("no %s was tried", k.Name)
		}
	}
	if err := w.store().VerifyAudit(t.Context()); err != nil {
		t.Error(err)
	}
	// An organisation reads its own rows by page.
	var own []string
	for after := int64(0); ; {
		rows, err := w.store().Audit(t.Context(), "org_acme", after, 3)
		if err != nil {
			t.Fatal(err)
		}
		if len(rows) == 0 {
			break
		}
		for _, r := range rows {
			own, after = append(own, r.Action), r.Seq
			if r.Org != "org_acme" {
				t.Errorf("the organisation sees %+v", r)
			}
		}
	}
	if len(own) != 34 {
		t.Errorf("the organisation sees %v", own)
	}
}

// refusals returns an op with n rows of refused requests.
func refusals(batch string, n int) *RecordRefusals {
	o := &RecordRefusals{Meta: by("audit"), Batch: batch}
	for i := range n {
		o.Refusals = append(o.Refusals, &Refusal{Org: "org_acme", Principal: "token", Action: fmt.Sprint("POST /x", i), Code: "FORBIDDEN", Count: uint64(i) + 1})
	}
	return o
}

// Refused requests are rows of the chain. A batch that is proposed again because its result was lost adds
// nothing.
func TestRefusalsAreInTheChain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(newOrg("acme"), refusals("b1", MaxRefusals), refusals("b1", MaxRefusals), newNamespace("org_acme", "a"), refusals("b2", 1))
	w.ok(refusals("b1", MaxRefusals), refusals("b2", 2))
	rows, err := w.store().Audit(t.Context(), tenancy.EveryOrg, 0, MaxPage)
	if err != nil || len(rows) != MaxRefusals+3 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	r := rows[2]
	want := AuditRow{Seq: r.Seq, AtNs: r.AtNs, Org: r.Org, Principal: "token", Action: "POST /x1", Refused: "FORBIDDEN", Count: 2, Batch: "b1", Hash: r.Hash}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Errorf("refused requests (-want +got):\n%s", diff)
	}
	if r := rows[0]; r.Refused != "" || r.Count != 1 || r.Batch != "" {
		t.Errorf("a change is %+v", r)
	}
	if err := w.store().VerifyAudit(t.Context()); err != nil {
		t.Error(err)
	}
}

// The format of the hash is permanent: any later binary must verify an export of today.
func TestAuditHashIsPermanent(t *testing.T) {
	t.Parallel()
	r := AuditRow{Seq: 7, AtNs: epochNs, Org: "org_a", Principal: "p", Action: "create-org", Target: "x", Refused: "CONFLICT", Count: 2, Batch: "b"}
	const want = "09898b6f099ded69905693b94912b4cc215827a522cd2e0bf14942a770511cf0"
	if got := hex.EncodeToString(r.chain(make([]byte, 32))); got != want {
		t.Errorf("the hash is %s, was %s", got, want)
	}
}

// The check finds and names every change made to the file behind the machine's back.
func TestTamperingIsFound(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ statement, want string }{
		"principal":  {"UPDATE audit SET principal = 'somebody' WHERE seq = 3", "row 3 (create-namespace of ns_b)"},
		"time":       {"UPDATE audit SET at_ns = at_ns + 1 WHERE seq = 2", "row 2 (create-namespace of ns_a)"},
		"moved text": {"UPDATE audit SET action = action || substr(target, 1, 1), target = substr(target, 2) WHERE seq = 1", "row 1 "},
		"removed":    {"DELETE FROM audit WHERE seq = 2", "row 2 is missing"},
		"cut off":    {"DELETE FROM audit WHERE seq = 4", "it ends at row 3, it was written up to row 4"},
		"count":      {"UPDATE audit SET count = 2 WHERE seq = 3", "row 3 "},
		"refused":    {"UPDATE audit SET refused = 'FORBIDDEN' WHERE seq = 3", "row 3 "},
		"batch":      {"UPDATE audit SET batch = 'b' WHERE seq = 3", "row 3 "},
		"added":      {"INSERT INTO audit SELECT 5, at_ns, org, principal, action, target, refused, count, batch, hash FROM audit WHERE seq = 4", "row 5 "},
		"hash":       {"UPDATE audit SET hash = zeroblob(32) WHERE seq = 4", "row 4 "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.ok(newOrg("acme"), newNamespace("org_acme", "a"), newNamespace("org_acme", "b"), newNamespace("org_acme", "c"))
			if err := w.store().VerifyAudit(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, text := range []string{"DROP TRIGGER audit_update", "DROP TRIGGER audit_delete", c.statement} {
				if _, err := w.db.exec(text); err != nil {
					t.Fatal(err)
				}
			}
			err := w.store().VerifyAudit(t.Context())
			if refused(err, api.Unhealthy) != nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("found %v, want %q", err, c.want)
			}
		})
	}
}

// Rows of refused requests, and no others, are removed when they are old. The rest verifies, even if the
// check began before.
func TestOldRefusalsAreRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(newOrg("acme"), refusals("b1", 3), newNamespace("org_acme", "a"))
	w.pass(time.Hour)
	w.ok(refusals("b2", 2), newNamespace("org_acme", "b"))
	rows := func() (all []string) {
		found, err := w.store().Audit(t.Context(), tenancy.EveryOrg, 0, MaxPage)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range found {
			all = append(all, fmt.Sprint(r.Seq, r.Batch))
		}
		return all
	}
	check := func(after AuditPosition) AuditCheck {
		t.Helper()
		c, err := w.store().CheckAudit(t.Context(), after, MaxPage)
		if err != nil || c.Broken != nil {
			t.Fatalf("%+v, %v", c, err)
		}
		return c
	}
	begun, err := w.store().CheckAudit(t.Context(), AuditPosition{}, 2)
	if err != nil || begun.Broken != nil || !begun.More {
		t.Fatalf("%+v, %v", begun, err)
	}
	w.clockNs = epochNs + int64(RefusalsKept) - 1
	w.ok(&StartTerm{})
	if got := fmt.Sprint(rows()); got != "[1 2b1 3b1 4b1 5 6b2 7b2 8]" {
		t.Errorf("before their time the rows are %s", got)
	}
	w.clockNs++
	w.ok(&StartTerm{})
	if got := fmt.Sprint(rows()); got != "[1 5 6b2 7b2 8]" {
		t.Errorf("after it the rows are %s", got)
	}
	if c := check(AuditPosition{}); c.Removed != 4 || c.Last.Seq != 8 {
		t.Errorf("%+v", c)
	}
	check(begun.Last)
	w.pass(time.Hour)
	w.ok(&StartTerm{})
	if got := fmt.Sprint(rows()); got != "[1 5 8]" {
		t.Errorf("in the end the rows are %s", got)
	}
	check(AuditPosition{})
	w.ok(refusals("b3", 1))
	w.pass(RefusalsKept)
	w.ok(&StartTerm{}) // the newest row of all
	if c := check(begun.Last); c.Removed != 9 || c.Last.Seq != 8 {
		t.Errorf("%+v", c)
	}
	w.reopen()
	w.ok(refusals("b4", 1), newNamespace("org_acme", "c"))
	check(AuditPosition{})
	if got := fmt.Sprint(rows()); got != "[1 5 8 10b4 11]" {
		t.Errorf("after another batch the rows are %s", got)
	}
}

// Each entry removes more rows than an entry can add, so that no old rows pile up.
func TestRefusalsAreRemovedAsFastAsTheyCome(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 3 {
		w.ok(refusals(fmt.Sprint("b", i), MaxRefusals))
	}
	w.pass(RefusalsKept)
	for i := range 3 {
		w.ok(refusals(fmt.Sprint("c", i), MaxRefusals))
	}
	if n := ask(w, func(r reader) (int64, error) { return number(r, "SELECT COUNT(*) FROM audit") }); n != 3*MaxRefusals {
		t.Errorf("%d rows, want the newest %d", n, 3*MaxRefusals)
	}
	if err := w.store().VerifyAudit(t.Context()); err != nil {
		t.Error(err)
	}
}

// The check finds refused requests that were removed or restored behind the machine's back.
func TestTamperingWithRefusalsIsFound(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ statement, want string }{
		"removed":        {"DELETE FROM audit WHERE seq = 7", "row 7 is missing"},
		"the oldest":     {"DELETE FROM audit WHERE seq = 6", "row 6 is missing"},
		"a change":       {"DELETE FROM audit WHERE seq = 5", "row 5 is missing"},
		"one in between": {"DELETE FROM audit WHERE seq = 1", "row 5 "},
		"hidden":         {"DELETE FROM audit WHERE seq = 6; UPDATE meta SET refused_removed = 6", "row 7 "},
		"brought back":   {"INSERT INTO audit SELECT 2, at_ns, org, principal, action, target, refused, count, batch, hash FROM audit WHERE seq = 6", "row 2 "},
		"the last ones":  {"DELETE FROM audit WHERE seq > 5; UPDATE meta SET refused_removed = 8, refused_anchor = refused_hash", "it ends at row 8"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.ok(newOrg("acme"), refusals("b1", 3), newNamespace("org_acme", "a"))
			w.pass(RefusalsKept)
			w.ok(refusals("b2", 2), newNamespace("org_acme", "b"))
			if err := w.store().VerifyAudit(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, text := range append([]string{"DROP TRIGGER audit_delete"}, strings.Split(c.statement, "; ")...) {
				if _, err := w.db.exec(text); err != nil {
					t.Fatal(err)
				}
			}
			err := w.store().VerifyAudit(t.Context())
			if refused(err, api.Unhealthy) != nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("found %v, want %q", err, c.want)
			}
		})
	}
}
