package store

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/corvo/corvo/api"
	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
)

var seeds = flag.Uint64("sim.seeds", 12, "histories that TestSimulation plays")

// TestSimulation plays random histories. Two machines follow one log. The first never stops. The second lags,
// is killed, loses unflushed changes, and is replaced by an image of the first. Whenever both are at the same
// entry they must be equal, and each must be consistent. After each entry, documents have let at most one store found
// the groups of the same incarnations.
func TestSimulation(t *testing.T) {
	t.Parallel()
	var changes, expired, approved, corrected, invoices, late, used atomic.Int64
	t.Cleanup(func() {
		for what, n := range map[string]int64{
			"members that have left": changes.Load(), "expired credits": expired.Load(), "approved requests": approved.Load(), "corrections": corrected.Load(),
			"invoices": invoices.Load(), "late rows of usage": late.Load(), "used credits": used.Load(),
		} {
			if n == 0 {
				t.Errorf("the histories are poor: they have no %s", what)
			}
		}
	})
	for seed := range *seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			s := &simulation{t: t, rng: rand.New(rand.NewPCG(seed, 1)), clockNs: epochNs, steady: newWorld(t), troubled: newWorld(t), counts: map[string]int{}, founders: map[string]string{}}
			for _, w := range []*world{s.steady, s.troubled} {
				w.limits = limits{orgs: 5, namespaces: 6, hosts: 5, stores: 3, keys: 6, roles: 2, signingKeys: 4, idempotency: 12, credits: 3, corrections: 3, sole: 10 * billing.Cent,
					raises: 3, ownRaisePercent: 100,
					aside: AsideTotals{Frames: 3, Bytes: 5}, namespaceAside: AsideTotals{Frames: 2, Bytes: 4}}
			}
			for range 150 {
				s.step()
			}
			s.catchUp()
			s.compare()
			changes.Add(int64(s.counts["leaving"]))
			approved.Add(int64(s.counts["*store.ApproveRequest"]))
			corrected.Add(ask(s.steady, func(r reader) (int64, error) {
				return number(r, "SELECT COUNT(*) FROM usage_corrections WHERE status = ?", CorrectionApplied)
			}))
			invoices.Add(int64(s.counts["*store.FinaliseInvoice"]))
			late.Add(ask(s.steady, func(r reader) (int64, error) { return number(r, "SELECT COUNT(*) FROM usage_late WHERE invoice > 0") }))
			used.Add(ask(s.steady, func(r reader) (int64, error) { return number(r, "SELECT COUNT(*) FROM invoice_credits") }))
			expired.Add(ask(s.steady, func(r reader) (int64, error) {
				return number(r, "SELECT COUNT(*) FROM credits WHERE status = ? AND granted_ns > 0", CreditExpired)
			}))
			// A history without refusals or without successes proves little.
			if s.counts["done"] < 50 || s.counts[string(api.StateConflict)] == 0 || s.counts[string(api.NotFound)] == 0 {
				t.Errorf("the history is poor: %v", s.counts)
			}
		})
	}
}

type simulation struct {
	t                testing.TB
	rng              *rand.Rand
	log              [][]byte // entry i is log[i-1]
	clockNs          int64
	minted           int
	steady, troubled *world
	counts           map[string]int    // outcomes of ops, and how often a member was seen to leave
	stale            *FinaliseInvoice  // the invoice that was drawn last
	founders         map[string]string // the store that documents have let found, by namespace and incarnations
}

func (s *simulation) step() {
	s.t.Helper()
	switch n := s.rng.IntN(40); {
	case n == 0: // idempotency records expire after a day
		s.clockNs += int64(25 * time.Hour)
	case n < 4: // months end
		s.clockNs += s.rng.Int64N(int64(20 * 24 * time.Hour))
	case n < 30:
		s.clockNs += s.rng.Int64N(int64(time.Minute))
	}
	var b entry.Builder
	var ops []op
	for range 1 + s.rng.IntN(5) {
		o := s.draw()
		ops = append(ops, o)
		if err := errors.Join(o.Validate(), addTo(&b, o)); err != nil {
			s.t.Fatalf("drew %T %v: %v", o, o, err)
		}
	}
	s.log = append(s.log, b.Finish(entry.Header{Level: FeatureLevel, Incarnation: incarnation, ClockNs: s.clockNs}))
	results, err := s.steady.try(s.log[len(s.log)-1])
	if err != nil {
		s.t.Fatal(err)
	}
	for i, r := range results {
		if refused, is := r.(*api.Error); is {
			s.counts[string(refused.Code)]++
			continue
		}
		s.counts["done"]++
		s.counts[fmt.Sprintf("%T", ops[i])]++
	}
	s.inspectFounders()
	calm := s.trouble()
	if s.troubled.Applied() == s.steady.Applied() && (!calm || s.rng.IntN(4) == 0) {
		s.compare()
	}
}

// trouble may disturb the second machine.
func (s *simulation) trouble() (calm bool) {
	s.t.Helper()
	w := s.troubled
	switch n := s.rng.IntN(24); {
	case n < 6: // it lags
		return true
	case n < 9:
		s.catchUp()
		if err := w.Flush(); err != nil {
			s.t.Fatal(err)
		}
	case n < 11:
		w.reopen()
	case n < 14: // killed, or a power cut: unflushed changes may be lost
		leaveOut := []string{"-shm"}
		if n == 13 {
			leaveOut = append(leaveOut, "-wal")
		}
		path := copyDir(s.t, w.path, leaveOut...)
		if err := w.machine.close(); err != nil {
			s.t.Fatal(err)
		}
		limits, before := w.limits, w.index
		w.path = path
		w.open()
		w.limits, w.index = limits, w.Applied().Index
		if w.index > before {
			s.t.Fatalf("after a crash at entry %d it stands at %d", before, w.index)
		}
	case n < 16:
		if err := w.Restore(copyOf(s.t, s.steady.machine)); err != nil {
			s.t.Fatal(err)
		}
		w.index = s.steady.index
	default:
		calm = true
	}
	s.catchUp()
	return calm
}

func (s *simulation) catchUp() {
	s.t.Helper()
	for int(s.troubled.index) < len(s.log) {
		if _, err := s.troubled.try(s.log[s.troubled.index]); err != nil {
			s.t.Fatal(err)
		}
	}
}

// compare compares the two machines, including their heads.
func (s *simulation) compare() {
	s.t.Helper()
	a, b := s.steady.dump(), s.troubled.dump()
	if !slices.Equal(a, b) {
		s.t.Fatalf("after entry %d the machines differ: %s\nheads\n%s\n%s", len(s.log), difference(a, b), a[0], b[0])
	}
	if x, y := s.steady.docs(0), s.troubled.docs(0); !reflect.DeepEqual(x, y) {
		s.t.Fatalf("documents differ:\n%v\n%v", x, y)
	}
	s.inspect(s.steady)
	s.inspect(s.troubled)
}

// inspect checks the invariants of a machine at an entry.
func (s *simulation) inspect(w *world) {
	s.t.Helper()
	checkProjection(s.t, w.machine)
	h := w.head.Load()
	err := w.machine.read(s.t.Context(), func(r reader) error {
		if err := verifyAudit(r); err != nil {
			return err
		}
		if _, err := verifyLedger(r, nil); err != nil {
			return err
		}
		if err := inspectInvoices(r, plansOf(s.t)); err != nil {
			return err
		}
		stored, err := number(r, "SELECT COUNT(*) FROM idempotency")
		if err == nil && (stored != h.idempotencyRecords || stored > w.limits.idempotency) {
			err = fmt.Errorf("%d keys are remembered, %d counted", stored, h.idempotencyRecords)
		}
		if err != nil {
			return err
		}
		all, err := list(r, scanCredential, selectCredential)
		if err != nil {
			return err
		}
		cached := slices.Collect(maps.Values(w.credentials))
		byID := func(a, b fleet.Credential) int { return bytes.Compare([]byte(a.ID), []byte(b.ID)) }
		slices.SortFunc(all, byID)
		slices.SortFunc(cached, byID)
		if len(all)+len(cached) > 0 && !reflect.DeepEqual(all, cached) {
			return fmt.Errorf("the cache of credentials differs from the table: %v and %v", cached, all)
		}
		// Each namespace in transition has one running operation, and there is no other.
		strays, err := number(r, `SELECT (SELECT COUNT(*) FROM operations WHERE status = 'running') - (SELECT COUNT(*) FROM namespaces n
			JOIN operations o ON o.id = n.operation AND o.namespace = n.id AND o.status = 'running' WHERE n.phase IN ('provisioning', 'deleting'))`)
		if err == nil && strays != 0 {
			err = fmt.Errorf("%d operations run for nobody", strays)
		}
		if err != nil {
			return err
		}
		if missing, err := list(r, scanDocument, unnumbered); err != nil || len(missing) > 0 {
			return fmt.Errorf("the documents %v have no number, %w", missing, err)
		}
		return inspectMembers(r)
	})
	if err != nil {
		s.t.Fatalf("after entry %d: %v", w.index, err)
	}
	last := int64(0)
	for _, d := range w.docs(0) {
		for _, k := range d.Keys {
			for _, name := range k.Roles {
				if !tenancy.Role(name).Valid() && !slices.ContainsFunc(d.Roles, func(r wire.Role) bool { return r.Name == name }) {
					s.t.Fatalf("key %s of %s has the role %s, which is not there", k.ID, d.Namespace, name)
				}
			}
		}
		if d.Number <= last || d.Number > h.docNumber {
			s.t.Fatalf("a document has number %d after %d, the newest is %d", d.Number, last, h.docNumber)
		}
		last = d.Number
	}
}

// inspectFounders checks that no other store than before may found the groups of a namespace.
func (s *simulation) inspectFounders() {
	s.t.Helper()
	for _, d := range s.steady.docs(0) {
		if d.Kind != wire.KindPlacement {
			continue
		}
		s.counts["leaving"] += len(d.Members) - len(s.steady.namespace(d.Namespace).Listed())
		for i, m := range d.Members {
			if m.Role != wire.Found {
				continue
			}
			groups := fmt.Sprint(d.Namespace, d.Incarnations)
			if by, ok := s.founders[groups]; i > 0 || ok && by != m.Store {
				s.t.Fatalf("%s may found %s, which %s may found: %+v", m.Store, groups, by, d)
			}
			s.founders[groups] = m.Store
		}
	}
}

// inspectMembers checks the members of all namespaces.
func inspectMembers(r reader) error {
	homeless, err := number(r, `SELECT COUNT(*) FROM members m LEFT JOIN stores s ON s.id = m.store LEFT JOIN hosts h ON h.id = s.host
		WHERE h.id IS NULL AND m.deleted = 0`)
	if err == nil && homeless != 0 {
		err = fmt.Errorf("the hosts of %d members are removed", homeless)
	}
	if err != nil {
		return err
	}
	wrong, err := list(r, scalar[string], `SELECT n.id FROM namespaces n LEFT JOIN members m ON m.namespace = n.id GROUP BY n.id
		HAVING n.listed <> COUNT(m.store) FILTER (WHERE m.leaving = 0) OR (n.phase = 'deleted') <> COALESCE(MAX(m.deleted), n.phase = 'deleted')
			OR COUNT(DISTINCT m.position) <> COUNT(m.store) OR MIN(m.position) <> 0 OR MAX(m.position) <> COUNT(m.store) - 1
			OR MIN(m.position) FILTER (WHERE m.leaving = 1) < n.listed`)
	if err == nil && len(wrong) > 0 {
		err = fmt.Errorf("the members of %v do not fit their rows", wrong)
	}
	return err
}

// mint returns a new id, or rarely one that was used before.
func (s *simulation) mint(prefix string) string {
	if s.minted > 0 && s.rng.IntN(12) == 0 {
		return prefix + fmt.Sprint(s.rng.IntN(s.minted))
	}
	s.minted++
	return prefix + fmt.Sprint(s.minted)
}

// some draws an existing id, or rarely an unknown one.
func (s *simulation) some(query, stranger string) string {
	all := ask(s.steady, func(r reader) ([]string, error) { return list(r, scalar[string], query) })
	if len(all) == 0 || s.rng.IntN(15) == 0 {
		return stranger
	}
	return all[s.rng.IntN(len(all))]
}

func (s *simulation) someNamespace() fleet.Namespace {
	id := s.some("SELECT id FROM namespaces ORDER BY id", "ns_none")
	if id == "ns_none" {
		return fleet.Namespace{ID: "ns_none", Generation: 1}
	}
	return s.steady.namespace(id)
}

func (s *simulation) meta() *Meta {
	m := &Meta{Principal: fmt.Sprintf("p%d", s.rng.IntN(2))}
	if s.rng.IntN(4) == 0 {
		key := fmt.Sprintf("key%d", s.rng.IntN(15))
		m.Idempotency = &Idempotency{Key: key, RequestHash: hash(fmt.Sprint(key, s.rng.IntN(2)))}
	}
	return m
}

// draw returns an op that may or may not fit the state.
func (s *simulation) draw() op {
	o := s.drawBare()
	switch s.rng.IntN(22) {
	case 0, 1:
		o = s.drawCredit()
	case 2, 3:
		o = s.drawCorrection(s.someNamespace())
	case 4, 5:
		o = s.drawSpend()
	case 6, 7:
		o = s.drawInvoice()
	case 8, 9:
		o = s.drawFrame(s.someNamespace())
	}
	o.ProtoReflect().Set(o.ProtoReflect().Descriptor().Fields().ByNumber(1), protoreflect.ValueOfMessage(s.meta().ProtoReflect()))
	return o
}

func (s *simulation) drawDrain() op {
	host, version := s.some("SELECT id FROM hosts ORDER BY id", "host_none"), s.rng.Int64N(4)/3
	if s.rng.IntN(2) == 0 {
		return &DrainHost{Id: host, ExpectVersion: version}
	}
	return &UndrainHost{Id: host, ExpectVersion: version}
}

func (s *simulation) drawBare() op {
	n := s.someNamespace()
	generation := max(1, n.Generation-int64(s.rng.IntN(8)/7))
	word := func(i int) string { return string(rune('a' + s.rng.IntN(i))) }
	switch s.rng.IntN(48) {
	case 30, 31, 32, 33:
		return s.drawHost()
	case 34, 35, 36, 37, 38, 39, 40, 41:
		return s.drawStep(n, generation)
	case 42, 43:
		return s.drawDrain()
	case 45:
		return &RaiseLevel{Level: FeatureLevel}
	case 44:
		return &RemoveProcess{Id: "control-" + word(3)}
	case 47:
		return s.drawPlan()
	case 46:
		return &RecoverNamespace{Id: string(n.ID), Generation: generation, Store: s.some("SELECT store FROM members WHERE namespace = '"+string(n.ID)+"' ORDER BY store", "store_none"), Incarnations: [][]byte{[]byte(fmt.Sprintf("%016d", s.rng.IntN(100)))}}
	case 28, 29:
		return s.drawPause(n)
	case 27:
		return &RemoveHost{Id: s.some("SELECT id FROM hosts ORDER BY id", "host_none"), ExpectVersion: s.rng.Int64N(4) / 3}
	case 0:
		return &StartTerm{}
	case 1:
		return &CreateOrg{Id: s.mint("org_"), Name: "o" + word(6)}
	case 2:
		return s.drawNewHost()
	case 3, 4:
		o := s.drawHost()
		if joins, ok := o.(*JoinHost); ok && s.rng.IntN(4) == 0 {
			joins.Store, joins.Run = "", 0
		}
		return o
	case 5, 6, 7:
		o := newNamespace(s.some("SELECT id FROM orgs ORDER BY id", "org_none"), "n"+word(12))
		o.Id, o.OperationId = s.mint("ns_"), s.mint("op_")
		o.Spec.DeletionProtection = s.rng.IntN(5) == 0
		o.Spec.Replicas = 1 + 2*uint32(s.rng.IntN(2))
		return o
	case 8:
		protect, replicas := s.rng.IntN(3) == 0, 1+2*uint32(s.rng.IntN(2))
		return &UpdateNamespace{Id: string(n.ID), DeletionProtection: &protect, Replicas: &replicas, ExpectVersion: int64(s.rng.IntN(2)) * (n.Version + int64(s.rng.IntN(2)))}
	case 9, 10:
		return &DeleteNamespace{Id: string(n.ID), OperationId: s.mint("op_")}
	case 11, 12:
		return s.drawPlace(n, generation)
	case 13, 14:
		return s.drawSettle(n, generation)
	case 15:
		return &RemoveNamespace{Id: string(n.ID), Generation: generation}
	case 16, 17:
		return s.drawCredential(n)
	case 18:
		old, id := s.some("SELECT id FROM credentials ORDER BY id", "key_none"), s.mint("key_")
		if id == old {
			id += "x" // no proposer lets that pass
		}
		return &RotateCredential{OldId: old, NewId: id, NewHash: hash(id),
			OldExpiresNs: s.clockNs + s.rng.Int64N(int64(time.Hour))}
	case 19:
		return &RevokeCredential{Id: s.some("SELECT id FROM credentials ORDER BY id", "key_none")}
	case 20:
		id := s.mint("sk_")
		return &AddSigningKey{Id: id, Seed: hash(id), TrustedUntilNs: s.clockNs + s.rng.Int64N(int64(time.Hour))}
	case 21, 22:
		return s.drawRole(n)
	case 23:
		return s.drawRoot()
	case 24, 25:
		return &FoundNamespace{Id: string(n.ID), Generation: generation, Incarnations: minted(strings.Repeat(n.Name, 1+s.rng.IntN(8)/7))}
	}
	if s.rng.IntN(3) == 0 {
		return refusals(fmt.Sprint("batch", s.rng.IntN(30)), 1+s.rng.IntN(3)) // some come again
	}
	return s.drawUsage(n)
}

func (s *simulation) drawNewHost() op {
	o := newHost("h")
	o.Id, o.Name, o.Ensure = s.mint("host_"), fmt.Sprint("h", s.rng.IntN(7)), s.rng.IntN(2) == 0
	o.Zone = []string{"", "z1", "z2"}[s.rng.IntN(3)]
	o.Credential.Id, o.Credential.Owner = s.mint("cred_"), o.Id
	return o
}

// drawHost draws the join of a host with one of few stores, so that hosts meet those of others and go back to lost ones.
// While there are few hosts, it rather draws a new one.
func (s *simulation) drawHost() op {
	host := s.some("SELECT id FROM hosts ORDER BY id", "host_none")
	hosts := ask(s.steady, func(r reader) (int64, error) { return number(r, "SELECT COUNT(*) FROM hosts") })
	if s.rng.Int64N(5) >= hosts {
		return s.drawNewHost()
	}
	o := &JoinHost{
		Id: host, Address: fmt.Sprint("http://", s.rng.IntN(3)), Version: fmt.Sprint(s.rng.IntN(2)), Raft: []string{"", "a:1", "a:1", "b:1"}[s.rng.IntN(4)],
		Store: fmt.Sprintf("store_%d", s.rng.IntN(8)), Run: max(0, s.rng.Int64N(6)-2),
	}
	if roots := ask(s.steady, func(r reader) ([]string, error) {
		return list(r, scalar[string], "SELECT fingerprint FROM fleet_roots ORDER BY 1")
	}); len(roots) > 0 && s.rng.IntN(3) > 0 {
		o.Roots, o.Issuer = roots, roots[s.rng.IntN(len(roots))]
	}
	return o
}

// drawRoot draws a step of the fleet's roots.
func (s *simulation) drawRoot() op {
	root := fmt.Sprint("root", s.rng.IntN(3))
	switch s.rng.IntN(4) {
	case 0:
		return newFleetRoot(root) // all but the first one are refused
	case 1:
		return rotation(root, time.Duration(s.rng.IntN(2))*time.Hour)
	case 2:
		return switchTo(root, s.rng.IntN(2) == 0, s.some("SELECT id FROM hosts ORDER BY id", "host_none"))
	}
	return retirement(root)
}

// drawStep draws a step that fits a namespace, as the reconciler would plan it.
func (s *simulation) drawStep(n fleet.Namespace, generation int64) op {
	switch {
	case n.PausedNs != 0:
		return &ResumeReconcile{Id: string(n.ID)}
	case n.Phase == fleet.Deleting && s.rng.IntN(4) == 0:
		return &RemoveNamespace{Id: string(n.ID), Generation: generation}
	case len(n.Members) == 0, lostFounder(n), n.Phase == fleet.Deleted:
		return s.drawPlace(n, generation)
	case !n.Founded:
		o := &FoundNamespace{Id: string(n.ID), Generation: generation}
		for _, i := range n.Incarnations {
			o.Incarnations = append(o.Incarnations, i[:])
		}
		return o
	case n.Observed < n.Generation && s.rng.IntN(3) > 0:
		return s.drawSettle(n, generation)
	}
	return s.drawPlace(n, generation)
}

func (s *simulation) drawSettle(n fleet.Namespace, generation int64) op {
	return &SettleNamespace{Id: string(n.ID), Generation: generation, Configurations: []uint64{uint64(n.Generation) + s.rng.Uint64N(3)}}
}

// drawPlace draws a list of members, often of as many stores as the namespace has replicas.
func (s *simulation) drawPlace(n fleet.Namespace, generation int64) op {
	stores := ask(s.steady, func(r reader) ([]string, error) {
		return list(r, scalar[string], "SELECT id FROM stores WHERE lost_ns = 0 OR id = 'store_0' ORDER BY id")
	})
	s.rng.Shuffle(len(stores), func(i, j int) { stores[i], stores[j] = stores[j], stores[i] })
	stores = append(stores, "store_none")
	many := n.Spec.Replicas
	if many == 0 || s.rng.IntN(6) == 0 || len(stores) < many {
		many = 1
	}
	o := &PlaceNamespace{Id: string(n.ID), Generation: generation, Stores: stores[:many]}
	if lostFounder(n) && s.rng.IntN(2) == 0 {
		o.Incarnations = minted(fmt.Sprint(n.Name, n.Generation))
	}
	return o
}

// drawRole draws an op that creates, replaces or deletes a role, sometimes while a key has it.
func (s *simulation) drawRole(n fleet.Namespace) op {
	name := fmt.Sprint("role", s.rng.IntN(3))
	if s.rng.IntN(3) == 0 {
		return dropRole(string(n.ID), name)
	}
	all := tenancy.DataPlanePermissions()
	o := putRole(string(n.ID), name, s.rng.IntN(2) == 0, string(all[s.rng.IntN(len(all))]))
	o.IfVersion = int64(s.rng.IntN(3))
	return o
}

func (s *simulation) drawCredential(n fleet.Namespace) op {
	id := s.mint("key_")
	o := newKey(keyring.Namespace, string(n.ID), id)
	if s.rng.IntN(3) == 0 {
		o.Credential.Roles = append(o.Credential.Roles, fmt.Sprint("role", s.rng.IntN(3)))
	}
	switch s.rng.IntN(4) {
	case 0:
		o = newKey(keyring.Org, s.some("SELECT id FROM orgs ORDER BY id", "org_none"), id)
	case 1:
		o = newKey(keyring.CloudOperator, "", id)
	}
	o.Ensure = s.rng.IntN(2) == 0
	if s.rng.IntN(2) == 0 {
		o.Credential.ExpiresNs = s.clockNs + s.rng.Int64N(int64(2*time.Minute)) // some have ended when they come
	}
	return o
}

// drawUsage draws a frame that is applied or set aside, or the removal of one that was set aside.
func (s *simulation) drawUsage(n fleet.Namespace) op {
	o := s.drawFrame(n)
	switch s.rng.IntN(8) {
	case 0, 1:
	case 2:
		seq := s.some("SELECT CAST(seq AS TEXT) FROM usage_aside ORDER BY seq", "1")
		number, err := strconv.ParseInt(seq, 10, 64)
		if err != nil {
			s.t.Fatal(err)
		}
		return &RemoveAsideUsage{Seq: number}
	default:
		return o
	}
	return &SetAsideUsage{Meta: o.Meta, Namespace: o.Namespace, Stream: o.Stream, Incarnation: o.Incarnation, From: o.From, To: o.To,
		Code: "VALIDATION_ERROR", Reason: "drawn", Frame: []byte("{}")[:1+s.rng.IntN(2)]}
}

func (s *simulation) drawFrame(n fleet.Namespace) *ApplyUsage {
	o := frame(string(n.ID), 1, 1)
	o.Stream = fmt.Sprintf("shard/%d", s.rng.IntN(2))
	last := ask(s.steady, func(r reader) (int64, error) {
		return number(r, "SELECT last_seq FROM usage_sources WHERE namespace = ? AND stream = ?", o.Namespace, o.Stream)
	})
	o.From = max(1, uint64(last)+1-uint64(s.rng.IntN(6)/5)) // a frame may come again, wholly or partly
	o.To = o.From + uint64(s.rng.IntN(3))
	for range 1 + s.rng.IntN(4) {
		r := usageRow(fmt.Sprint("q", s.rng.IntN(2)), fmt.Sprint("m", s.rng.IntN(2)), s.rng.Int64N(1e12))
		r.HourNs += s.rng.Int64N(3) * int64(time.Hour)
		if s.rng.IntN(3) > 0 { // of the last weeks, sometimes of a month with an invoice
			r = &UsageRow{Queue: r.Queue, Meter: uint32(billing.ResponseBytes), Quantity: s.rng.Int64N(40_000_000_000)}
			r.HourNs = (s.clockNs - s.rng.Int64N(int64(40*24*time.Hour))) / int64(time.Hour) * int64(time.Hour)
		}
		o.Rows = append(o.Rows, r)
	}
	return o
}
