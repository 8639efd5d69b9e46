package store

import (
	"fmt"
	"strings"
	"testing"

	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/tenancy/keyring"
)

// before turns a state back into one of a build in which a namespace had one host.
const before = `
ALTER TABLE hosts DROP COLUMN raft;
DROP INDEX namespaces_unsettled;
ALTER TABLE namespaces DROP COLUMN listed;
ALTER TABLE namespaces ADD COLUMN host TEXT NOT NULL DEFAULT '';
UPDATE namespaces SET host = COALESCE((SELECT s.host FROM members m JOIN stores s ON s.id = m.store WHERE m.namespace = namespaces.id), '');
CREATE INDEX namespaces_host ON namespaces (host, id) WHERE phase <> 'deleted';
CREATE INDEX namespaces_operation ON namespaces (id) WHERE operation <> '';
CREATE TABLE placements (namespace TEXT PRIMARY KEY, store TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE INDEX placements_store ON placements (store, namespace);
INSERT INTO placements SELECT namespace, store FROM members WHERE deleted = 0;
DROP TABLE members;
DROP TABLE configurations;
`

// turnBack turns the state back by texts of SQL.
func (w *world) turnBack(texts ...string) {
	w.t.Helper()
	for _, text := range texts {
		if _, err := w.db.writer.ExecContext(w.t.Context(), text); err != nil {
			w.t.Fatal(err)
		}
	}
}

// A state of an earlier build keeps its placements. It is carried over once, however often it is opened.
func TestPlacementsOfAnEarlierBuildAreCarriedOver(t *testing.T) {
	t.Parallel()
	w := newFleet(t, "a", "b")
	w.ok(newReplicated(1), place("x", "a"), found("x"), settle("x"), newNamespace("org_acme", "new"))
	w.ok(newNamespace("org_acme", "gone"), place("gone", "a"), deletion("gone"), removal("gone"), start("b", "b2"))
	w.turnBack(before)
	for range 2 {
		w.reopen()
		n := w.namespace("ns_x")
		if !listed(n, "a") || n.Members[0].Host != "host_a" || n.Members[0].Lost || n.Phase != fleet.Active {
			t.Errorf("the namespace is %+v", n)
		}
		if n := w.namespace("ns_new"); n.Members != nil {
			t.Errorf("a namespace that was not placed is on %+v", n.Members)
		}
		w.wantCounts("carried over", map[string]int{"a": 1, "b": 0})
	}
	w.ok(start("a", "a"), start("b", "b2"), replicas("x", 3), replicas("x", 1))
	w.ok(atGeneration(3, place("x", "b2")))
	w.wantMembers("moved", "b2 join", "a leaving")
	err := w.machine.read(t.Context(), inspectMembers)
	if err != nil {
		t.Error(err)
	}
}

// A state with a namespace on a host that has named no store is refused, and not changed.
func TestAPlacementWithoutAStoreIsNotCarriedOver(t *testing.T) {
	t.Parallel()
	w := newFleet(t, "a")
	w.ok(newReplicated(1), place("x", "a"))
	w.turnBack(before, "DELETE FROM placements")
	path := copyDir(t, w.path, "-shm")
	for range 2 {
		if _, err := openMachine(path, FeatureLevel, table); err == nil || !strings.Contains(err.Error(), "host_a has namespaces and has named no store") {
			t.Fatalf("it opens: %v", err)
		}
	}
}

// wideUsage turns the usage of a state back into rows with a column for each meter.
func wideUsage() string {
	columns := []string{"reports", "rejected_reports", "input_tokens", "output_tokens", "cache_creation_tokens", "cache_read_tokens", "cost_nano_usd", "requests", "request_bytes", "response_bytes"}
	var defined, sums []string
	for i, c := range columns {
		defined = append(defined, c+" INTEGER NOT NULL")
		sums = append(sums, fmt.Sprintf("SUM(CASE meter WHEN %d THEN quantity ELSE 0 END)", i+1))
	}
	return strings.NewReplacer("DEFINED", strings.Join(defined, ", "), "SUMS", strings.Join(sums, ", ")).Replace(`
		ALTER TABLE usage_journal RENAME TO narrow_journal;
		DROP TRIGGER usage_journal_update;
		DROP TRIGGER usage_journal_delete;
		CREATE TABLE usage_journal (namespace TEXT NOT NULL, stream TEXT NOT NULL, incarnation TEXT NOT NULL, to_seq INTEGER NOT NULL, row_no INTEGER NOT NULL,
			from_seq INTEGER NOT NULL, applied_ns INTEGER NOT NULL, hour_ns INTEGER NOT NULL, queue TEXT NOT NULL, model TEXT NOT NULL, provider TEXT NOT NULL,
			DEFINED, PRIMARY KEY (namespace, stream, incarnation, to_seq, row_no)) STRICT, WITHOUT ROWID;
		INSERT INTO usage_journal SELECT namespace, stream, incarnation, to_seq, row_no, from_seq, applied_ns, hour_ns, queue, model, provider, SUMS
			FROM narrow_journal GROUP BY namespace, stream, incarnation, to_seq, row_no;
		DROP TABLE narrow_journal;
		CREATE TRIGGER usage_journal_update BEFORE UPDATE ON usage_journal BEGIN SELECT RAISE(ABORT, 'usage is never changed'); END;
		CREATE TRIGGER usage_journal_delete BEFORE DELETE ON usage_journal BEGIN SELECT RAISE(ABORT, 'usage is never deleted'); END;
		ALTER TABLE usage_hourly RENAME TO narrow_hourly;
		CREATE TABLE usage_hourly (namespace TEXT NOT NULL, hour_ns INTEGER NOT NULL, queue TEXT NOT NULL, model TEXT NOT NULL, provider TEXT NOT NULL,
			part INTEGER NOT NULL, DEFINED, PRIMARY KEY (namespace, hour_ns, queue, model, provider, part)) STRICT, WITHOUT ROWID;
		INSERT INTO usage_hourly SELECT namespace, hour_ns, queue, model, provider, part, SUMS FROM narrow_hourly
			GROUP BY namespace, hour_ns, queue, model, provider, part;
		DROP TABLE narrow_hourly;`)
}

// Usage of an earlier build, in the state and in the log, counts as it did there.
func TestUsageOfAnEarlierBuildIsCarriedOver(t *testing.T) {
	t.Parallel()
	w := usageWorld(t)
	w.ok(earlierFrame("ns_a", 1, 3, usageRow("q", "m", 100), usageRow("q", "n", 11)), earlierFrame("ns_b", 1, 1, usageRow("q", "m", 1000)))
	before := w.dump()
	w.turnBack(wideUsage())
	for range 2 {
		w.reopen()
		if diff := difference(before, w.dump()); diff != "" {
			t.Errorf("the state differs: %s", diff)
		}
		checkProjection(t, w.machine)
	}
	w.ok(frame("ns_a", 4, 4, usageRow("q", "m", 10)))
	total, _ := w.usage(always("org_acme"))
	if money.Total(total[billing.Cost]).Nano() != 1121 || total[billing.Reports].Int64() != 4 || total[billing.ResponseBytes].Int64() != 32 {
		t.Errorf("used %v", total)
	}
	if _, err := w.db.writer.ExecContext(t.Context(), "DELETE FROM usage_journal"); err == nil {
		t.Error("usage can be deleted")
	}
}

// The keys and tokens of a state of an earlier build, which sent them with the placements, get documents of their own when
// the next term starts: once, and with higher numbers than any document that was sent.
func TestKeysOfAnEarlierBuildGetDocuments(t *testing.T) {
	t.Parallel()
	w := newFleet(t, "a")
	w.ok(newReplicated(1), newNamespace("org_acme", "plain"), newNamespace("org_acme", "roles"), newOrg("other"))
	w.ok(newKey(keyring.Namespace, "ns_x", "k1"), newKey(keyring.Org, "org_acme", "t1"), putRole("ns_roles", "auditor", true, "job.read"))
	if _, err := w.db.writer.ExecContext(t.Context(), "DROP TABLE documents"); err != nil {
		t.Fatal(err)
	}
	w.reopen()
	before, _ := w.changes.watch()
	if got := len(w.docs(0)); got != 3 {
		t.Fatalf("there are %d documents", got)
	}
	for range 2 {
		w.ok(&StartTerm{Meta: by("leader")})
		var got []string
		for _, d := range w.docs(before) {
			got = append(got, fmt.Sprint(d.Kind, " ", d.Org, d.Namespace, " ", len(d.Keys), len(d.Roles)))
		}
		if want := "keys org_acmens_roles 0 1, keys org_acmens_x 1 0, tokens org_acme 1 0"; strings.Join(got, ", ") != want {
			t.Errorf("new documents: %v, want %s", got, want)
		}
	}
}
