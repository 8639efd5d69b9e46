package store

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/image"
	"github.com/corvo/corvo/engine/optable"
	"github.com/corvo/corvo/engine/pipeline"
	"github.com/corvo/corvo/engine/replica"
	"github.com/corvo/corvo/tenancy/keyring"
)

// The tests of this package use these words. A world is a machine on a real database, with a clock that only
// the test moves (pass). The functions at the end of this file build ops with defaults. apply validates ops,
// encodes them as one entry and applies it; do and ok apply ops that must succeed; refused applies one that
// must be refused and must change nothing; try applies an encoded entry that may stop the machine. reopen
// closes the machine as a killed process would. dump returns every row and the state in memory, and
// difference compares two dumps. store and ask read the way the server does.

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files")

// epochNs is the start of every test's clock.
const epochNs = int64(1_700_000_000 * time.Second)

var incarnation = entry.Incarnation{1}

// world is a machine on a real database. A test applies entries to it as the log would.
type world struct {
	t testing.TB
	*machine
	known   optable.Level         // 0 = FeatureLevel
	ops     *optable.Table[*kind] // nil = table
	path    string
	clockNs int64
	index   uint64
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, path: t.TempDir(), clockNs: epochNs}
	w.open()
	t.Cleanup(func() {
		if err := w.machine.close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *world) open() {
	w.t.Helper()
	m, err := openMachine(w.path, cmp.Or(w.known, FeatureLevel), cmp.Or(w.ops, table))
	if err != nil {
		w.t.Fatal(err)
	}
	w.machine = m
}

// reopen closes the machine as a killed process would, and opens it again.
func (w *world) reopen() {
	w.t.Helper()
	if err := w.machine.close(); err != nil {
		w.t.Fatal(err)
	}
	limits := w.limits
	w.open()
	w.limits = limits
}

// addTo adds an op to an entry. A raw op is a proposal of its own.
func addTo(b *entry.Builder, o op) error {
	p, ok := o.(pipeline.Op)
	if !ok {
		p = table.Proposal(o)
	}
	return b.Add(p.Number(), p.SizeVT(), p)
}

func encode(t testing.TB, level uint32, clockNs int64, ops ...op) []byte {
	t.Helper()
	var b entry.Builder
	for _, o := range ops {
		if err := addTo(&b, o); err != nil {
			t.Fatal(err)
		}
	}
	return b.Finish(entry.Header{Level: level, Incarnation: incarnation, ClockNs: clockNs})
}

// at returns the position of an entry in every test's log.
func at(index uint64) entry.Applied {
	return entry.Applied{Group: "test", Incarnation: incarnation, Index: index, Term: 1}
}

// try applies one encoded entry to the machine.
func (w *world) try(data []byte) ([]any, error) {
	w.t.Helper()
	e, err := entry.Decode(data)
	if err != nil {
		w.t.Fatal(err)
	}
	results, err := w.Apply(at(w.index+1), e)
	if err == nil {
		w.index++
	}
	return results, err
}

// apply applies one entry of valid ops.
func (w *world) apply(ops ...op) []any {
	w.t.Helper()
	for _, o := range ops {
		if err := o.Validate(); err != nil {
			w.t.Fatalf("%T %v: %v", o, o, err)
		}
	}
	results, err := w.try(encode(w.t, FeatureLevel, w.clockNs, ops...))
	if err != nil {
		w.t.Fatal(err)
	}
	return results
}

// do applies one op that must succeed.
func do[R any](w *world, o op) R {
	w.t.Helper()
	r, ok := w.apply(o)[0].(R)
	if !ok {
		w.t.Fatalf("%T %v: answered %v", o, o, w.lastRefusal(o))
	}
	return r
}

// lastRefusal applies an op once more and returns its result.
func (w *world) lastRefusal(o op) any { return w.apply(o)[0] }

// ok applies ops that must succeed.
func (w *world) ok(ops ...op) {
	w.t.Helper()
	for i, r := range w.apply(ops...) {
		if refused, is := r.(*api.Error); is {
			w.t.Fatalf("%T %v: %v", ops[i], ops[i], refused)
		}
	}
}

// refused applies one op that must be refused with a code and change nothing.
func (w *world) refused(code api.Code, o op) *api.Error {
	w.t.Helper()
	before := w.dump()
	refusal, is := w.apply(o)[0].(*api.Error)
	if !is || refused(refusal, code) != nil {
		w.t.Fatalf("%T %v: answered %v, want %s", o, o, refusal, code)
	}
	if diff := difference(before, w.dump()); diff != "" {
		w.t.Fatalf("%T was refused and has changed the state: %s", o, diff)
	}
	return refusal
}

func refused(err error, code api.Code) error {
	if !errors.Is(err, &api.Error{Code: code}) {
		return fmt.Errorf("error is %w, want %s", err, code)
	}
	return nil
}

// pass moves the clock forward.
func (w *world) pass(d time.Duration) { w.clockNs += int64(d) }

// store wraps the machine in a Store, for its reads.
func (w *world) store() *Store { return &Store{machine: w.machine} }

func (w *world) docs(after int64) []wire.Doc {
	w.t.Helper()
	all, err := w.store().Docs(w.t.Context(), after, MaxPage)
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

// doc returns the placement of a namespace.
func (w *world) doc(namespace string) wire.Doc {
	w.t.Helper()
	d := w.docOf(wire.KindPlacement, namespace)
	if d.Number == 0 {
		w.t.Fatalf("%s has no document", namespace)
	}
	return d
}

// docOf returns the document of a kind of a namespace or organisation, or a zero one if there is none.
func (w *world) docOf(kind, id string) wire.Doc {
	w.t.Helper()
	for _, d := range w.docs(0) {
		if d.Kind == kind && (d.Namespace == id || kind == wire.KindTokens && d.Org == id) {
			return d
		}
	}
	return wire.Doc{}
}

func (w *world) namespace(id string) fleet.Namespace {
	w.t.Helper()
	return ask(w, func(r reader) (fleet.Namespace, error) {
		n, found, err := first(r, scanNamespace, selectNamespace+" WHERE id = ?", id)
		if !found {
			w.t.Fatalf("there is no namespace %s", id)
		}
		return n, err
	})
}

func ask[T any](w *world, f func(reader) (T, error)) T {
	w.t.Helper()
	v, err := read(w.t.Context(), w.store(), f)
	if err != nil {
		w.t.Fatal(err)
	}
	return v
}

// tables lists the queries for all rows of a state, each in the order of its key.
var tables = []string{
	"meta ORDER BY one", "orgs ORDER BY id", "namespaces ORDER BY id", "operations ORDER BY id", "hosts ORDER BY id",
	"credentials ORDER BY id", "roles ORDER BY namespace, name", "ended_credentials ORDER BY id", "usage_sources ORDER BY namespace, stream, incarnation",
	"usage_journal ORDER BY namespace, stream, incarnation, to_seq, row_no", "usage_frames ORDER BY namespace, stream, incarnation, to_seq", "usage_claims ORDER BY namespace, stream",
	"usage_aside ORDER BY seq", "usage_corrections ORDER BY id",
	"usage_hourly ORDER BY namespace, hour_ns, queue, model, provider, part", "audit ORDER BY seq",
	"idempotency ORDER BY principal, key", "signing_keys ORDER BY number",
	"fleet_roots ORDER BY fingerprint", "stores ORDER BY id", "members ORDER BY namespace, store", "configurations ORDER BY namespace", "foundings ORDER BY namespace", "recoveries ORDER BY namespace", "pauses ORDER BY namespace", "drains ORDER BY host", "zones ORDER BY host", "feature_levels ORDER BY level",
	"fleet_root_times ORDER BY fingerprint", "member_roots ORDER BY host",
	"documents ORDER BY kind, id", "plan_changes ORDER BY org, from_ns",
	"spend_limits ORDER BY org", "spend_raises ORDER BY id", "spend_alerts ORDER BY org, month_ns, percent",
	"ledger_transactions ORDER BY number", "ledger_postings ORDER BY number, account", "ledger_head ORDER BY one", "ledger_balances ORDER BY org, currency, account",
	"approvals ORDER BY kind, id", "credits ORDER BY id",
	"invoices ORDER BY number", "invoice_lines ORDER BY number, position", "invoice_credits ORDER BY number, credit",
	"usage_late ORDER BY namespace, stream, incarnation, to_seq, row_no, meter",
}

// dump returns every row and the parts of the state in memory.
func (w *world) dump() []string {
	w.t.Helper()
	return dump(w.t, w.machine)
}

func dump(t testing.TB, m *machine) (all []string) {
	t.Helper()
	err := m.read(context.Background(), func(r reader) error {
		for _, table := range tables {
			rows, err := r.query("SELECT * FROM " + table)
			if err != nil {
				return err
			}
			columns, err := rows.Columns()
			if err != nil {
				return err
			}
			for rows.Next() {
				values := make([]any, len(columns))
				places := make([]any, len(columns))
				for i := range values {
					places[i] = &values[i]
				}
				if err := rows.Scan(places...); err != nil {
					return err
				}
				all = append(all, fmt.Sprintf("%s %v", table, values))
			}
			if err := errors.Join(rows.Err(), rows.Close()); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, id := range slices.Sorted(maps.Keys(m.credentials)) {
		all = append(all, fmt.Sprintf("cache %+v", m.credentials[id]))
	}
	number, _ := m.changes.watch()
	return append(all, fmt.Sprintf("changes %d", number))
}

// difference returns the first line in which two dumps differ, apart from their positions; "" = equal.
func difference(a, b []string) string {
	for i := range max(len(a), len(b)) {
		var left, right string
		if i < len(a) {
			left = a[i]
		}
		if i < len(b) {
			right = b[i]
		}
		if left != right && !(strings.HasPrefix(left, "meta ") && strings.HasPrefix(right, "meta ")) {
			return fmt.Sprintf("%s\nis\n%s", left, right)
		}
	}
	return ""
}

// schemaTables lists the tables of the schema.
func schemaTables(w *world) []string {
	return ask(w, func(r reader) ([]string, error) {
		return list(r, scalar[string], "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
	})
}

// TestDumpIsWhole checks that dumps include every table, because comparing them proves nothing about a
// missing one.
func TestDumpIsWhole(t *testing.T) {
	t.Parallel()
	var have []string
	for _, table := range tables {
		name, _, _ := strings.Cut(table, " ")
		have = append(have, name)
	}
	slices.Sort(have)
	if want := schemaTables(newWorld(t)); !reflect.DeepEqual(have, want) {
		t.Errorf("dumps hold %v, the schema %v", have, want)
	}
}

// The functions below build the ops of the tests, with defaults for all other fields.

func hash(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return sum[:]
}

func by(principal string) *Meta { return &Meta{Principal: principal} }

func newOrg(name string) *CreateOrg {
	return &CreateOrg{Meta: by("op"), Id: "org_" + name, Name: name}
}

func newNamespace(org, name string) *CreateNamespace {
	return &CreateNamespace{
		Meta: by("token"), Id: "ns_" + name, Org: org, Name: name, OperationId: "op_create_" + name,
		Spec: &Spec{Region: "here", Tier: "shared", Replicas: 1, Shards: 1}, Incarnations: minted(name),
	}
}

// minted returns the incarnations of a namespace with one shard.
func minted(name string) [][]byte { return [][]byte{hash(name)[:16]} }

// ofBefore returns the op by which an earlier version created a namespace.
func ofBefore(o *CreateNamespace) *CreateNamespace {
	o.Incarnations = nil
	return o
}

func newHost(name string) *CreateHost {
	return &CreateHost{
		Meta: by("op"), Id: "host_" + name, Name: name, Kind: string(keyring.Host), Region: "here",
		Credential: &Credential{Id: "cred_" + name, Kind: string(keyring.Host), Owner: "host_" + name, Hash: hash(name), Roles: []string{"joiner"}},
	}
}

func newGateway(name string) *CreateHost {
	o := newHost(name)
	o.Kind, o.Credential.Kind = string(keyring.Gateway), string(keyring.Gateway)
	return o
}

func join(name, address string) *JoinHost {
	return &JoinHost{Meta: by("cred_" + name), Id: "host_" + name, Address: address, Version: "v1", Raft: name + ":7000"}
}

func newKey(kind keyring.Kind, owner, id string) *CreateCredential {
	role := "worker"
	if kind == keyring.CloudOperator {
		role = "cloud-operator"
	}
	return &CreateCredential{Meta: by("token"), Credential: &Credential{
		Id: id, Kind: string(kind), Owner: owner, Name: "key " + id, Roles: []string{role}, Hash: hash(id),
	}}
}

func putRole(namespace, name string, create bool, permissions ...string) *PutRole {
	return &PutRole{Meta: by("token"), Namespace: namespace, Name: name, Create: create, Permissions: permissions}
}

func dropRole(namespace, name string) *DeleteRole {
	return &DeleteRole{Meta: by("token"), Namespace: namespace, Name: name}
}

func place(name string, stores ...string) *PlaceNamespace {
	o := &PlaceNamespace{Meta: by("reconciler"), Id: "ns_" + name, Generation: 1}
	for _, store := range stores {
		o.Stores = append(o.Stores, "store_"+store)
	}
	return o
}

func found(name string) *FoundNamespace {
	return &FoundNamespace{Meta: by("reconciler"), Id: "ns_" + name, Generation: 1, Incarnations: minted(name)}
}

// settle returns a settling with the indexes of the configurations; none means 1 for the only shard.
func settle(name string, configurations ...uint64) *SettleNamespace {
	if len(configurations) == 0 {
		configurations = []uint64{1}
	}
	return &SettleNamespace{Meta: by("reconciler"), Id: "ns_" + name, Generation: 1, Configurations: configurations}
}

func replicas(name string, n uint32) *UpdateNamespace {
	return &UpdateNamespace{Meta: by("token"), Id: "ns_" + name, Replicas: &n}
}

func deletion(name string) *DeleteNamespace {
	return &DeleteNamespace{Meta: by("token"), Id: "ns_" + name, OperationId: "op_delete_" + name}
}

func aside(name string, from, to uint64) *SetAsideUsage {
	return &SetAsideUsage{Meta: by("host"), Namespace: "ns_" + name, Stream: "shard/0", Incarnation: "aa", From: from, To: to,
		Code: "VALIDATION_ERROR", Reason: "rows[0].queue is no text", Frame: []byte(`{"from":3}`)}
}

func removal(name string) *RemoveNamespace {
	return &RemoveNamespace{Meta: by("reconciler"), Id: "ns_" + name, Generation: 2}
}

// withKey gives an op an idempotency key.
func withKey[O op](o O, key string) O {
	o.GetMeta().Idempotency = &Idempotency{Key: key, RequestHash: hash(key)}
	return o
}

// copied is an image in memory that a test can damage.
type copied struct {
	part  image.Part
	bytes []byte
	at    entry.Applied
	onGet func(read int) // called before each read, with the bytes read so far
}

func (c *copied) Applied() entry.Applied { return c.at }
func (c *copied) Parts() []image.Part    { return []image.Part{c.part} }

func (c *copied) Open(string) (io.ReadCloser, error) {
	r := bytes.NewReader(c.bytes)
	return io.NopCloser(readerFunc(func(b []byte) (int, error) {
		if c.onGet != nil {
			c.onGet(len(c.bytes) - r.Len())
		}
		return r.Read(b[:min(len(b), 4096)])
	})), nil
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

func copyOf(t testing.TB, m *machine) *copied {
	t.Helper()
	i, err := m.Image()
	if err != nil {
		t.Fatal(err)
	}
	c := readAll(t, i)
	if err := i.Close(); err != nil {
		t.Fatal(err)
	}
	return c
}

func readAll(t testing.TB, i replica.Image) *copied {
	t.Helper()
	c := &copied{at: i.Applied()}
	if n := len(i.Parts()); n != 1 {
		t.Fatalf("the image has %d parts", n)
	}
	c.part = i.Parts()[0]
	r, err := i.Open(c.part.Name)
	if err == nil {
		c.bytes, err = io.ReadAll(image.Verify(c.part, r))
		err = errors.Join(err, r.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}
