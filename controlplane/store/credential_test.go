package store

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/corvo/corvo/api"
	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
)

// shown returns the ids of the keys in a namespace's document, and of the tokens in that of its organisation.
func (w *world) shown(namespace string) string {
	w.t.Helper()
	var ids []string
	for _, d := range []wire.Doc{w.docOf(wire.KindKeys, namespace), w.docOf(wire.KindTokens, w.doc(namespace).Org)} {
		for _, k := range d.Keys {
			ids = append(ids, k.ID)
		}
	}
	return strings.Join(ids, " ")
}

func TestCreateCredential(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(newOrg("acme"), newNamespace("org_acme", "a"), newHost("h1"), newGateway("g1"))
	key := newKey(keyring.Namespace, "ns_a", "k1")
	key.Credential.Roles, key.Credential.QueueScope = []string{"worker", "readonly"}, []string{"mail-*", "billing"}
	key.Credential.ExpiresNs = epochNs + int64(time.Hour)
	w.ok(key)
	c, ok := w.credential("k1")
	want := fleet.Credential{Kind: keyring.Namespace, Owner: "ns_a", Version: 1, Key: tenancy.Key{
		ID: "k1", Name: "key k1", Roles: []tenancy.Role{"worker", "readonly"}, QueueScope: []tenancy.Glob{"mail-*", "billing"},
		Hash: [32]byte(hash("k1")), Enabled: true, ExpiresAt: time.Unix(0, epochNs).Add(time.Hour).UTC(), CreatedAt: time.Unix(0, epochNs).UTC(),
	}}
	if !ok || fmt.Sprint(c) != fmt.Sprint(want) {
		t.Errorf("made %+v\nwant %+v", c, want)
	}
	k := w.docOf(wire.KindKeys, "ns_a").Keys[0]
	if fmt.Sprint(k.Roles, k.QueueScope, k.Hash, k.ExpiresNs, k.CreatedNs) != fmt.Sprint(key.Credential.Roles, key.Credential.QueueScope, key.Credential.Hash, key.Credential.ExpiresNs, epochNs) {
		t.Errorf("the document shows %+v", k)
	}

	// A second create is a conflict. With ensure set it is a success if the hash is the same.
	w.refused(api.Conflict, key)
	key.Ensure = true
	before := w.dump()
	w.ok(key)
	if diff := difference(before, w.dump()); diff != "" {
		t.Errorf("ensured again: %s", diff)
	}
	key.Credential.Hash = hash("other")
	w.refused(api.Conflict, key)

	for _, c := range []struct {
		code        api.Code
		kind        keyring.Kind
		owner, role string
	}{
		{api.NotFound, keyring.Namespace, "ns_none", "worker"},
		{api.NotFound, keyring.Org, "org_none", "worker"},
		{api.NotFound, keyring.Host, "host_none", "joiner"},
		{api.StateConflict, keyring.Host, "host_g1", "joiner"},
		{api.StateConflict, keyring.Gateway, "host_h1", "joiner"},
	} {
		o := newKey(c.kind, c.owner, "k9")
		o.Credential.Roles = []string{c.role}
		w.refused(c.code, o)
	}
	late := newKey(keyring.Namespace, "ns_a", "k9")
	late.Credential.ExpiresNs = epochNs
	w.refused(api.ValidationError, late)
}

// The successor of a rotated key has the same rights and the same lifetime. The old key stays valid for the
// overlap.
func TestRotateCredential(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(newOrg("acme"), newNamespace("org_acme", "a"), newKey(keyring.Namespace, "ns_a", "forever"))
	hourly := newKey(keyring.Namespace, "ns_a", "hourly")
	hourly.Credential.ExpiresNs = w.clockNs + int64(time.Hour)
	hourly.Credential.QueueScope = []string{"q"}
	w.ok(hourly)
	rotate := func(old, heir string, end int64) *RotateCredential {
		return &RotateCredential{Meta: by("token"), OldId: old, NewId: heir, NewHash: hash(heir), OldExpiresNs: end}
	}
	w.pass(10 * time.Minute)
	overlap := w.clockNs + int64(5*time.Minute)
	w.ok(rotate("hourly", "hourly2", overlap))
	old, _ := w.credential("hourly")
	heir, _ := w.credential("hourly2")
	if old.ExpiresAt.UnixNano() != overlap {
		t.Errorf("the old key ends at %v", old.ExpiresAt)
	}
	if heir.Name != old.Name || heir.Owner != "ns_a" || heir.Kind != keyring.Namespace {
		t.Errorf("the new key is %q of the %s %s", heir.Name, heir.Kind, heir.Owner)
	}
	if got, want := fmt.Sprint(heir.Roles, heir.QueueScope), fmt.Sprint(old.Roles, old.QueueScope); got != want {
		t.Errorf("the new key has the rights %s, want %s", got, want)
	}
	if heir.Hash != [32]byte(hash("hourly2")) {
		t.Errorf("the new key has the hash %x", heir.Hash)
	}
	if got, want := heir.ExpiresAt.UnixNano(), w.clockNs+int64(time.Hour); got != want {
		t.Errorf("the new key ends at %d, want %d", got, want)
	}
	// A second rotation within the overlap leaves the lifetime of the successor at an hour.
	w.ok(rotate("hourly", "hourly3", w.clockNs+int64(time.Hour)))
	old, _ = w.credential("hourly")
	heir, _ = w.credential("hourly3")
	if old.ExpiresAt.UnixNano() != overlap || heir.ExpiresAt.UnixNano() != w.clockNs+int64(time.Hour) {
		t.Errorf("the old key ends at %v, the new one at %v", old.ExpiresAt, heir.ExpiresAt)
	}
	before := w.dump()
	w.ok(rotate("hourly", "hourly3", overlap)) // a repeat
	if diff := difference(before, w.dump()); diff != "" {
		t.Errorf("a repeat: %s", diff)
	}
	// Without an overlap the old key ends at once.
	w.ok(rotate("forever", "forever2", w.clockNs))
	if _, ok := w.credential("forever"); ok {
		t.Error("the old key goes on")
	}
	if heir, _ := w.credential("forever2"); !heir.ExpiresAt.IsZero() {
		t.Errorf("the heir of a key without end ends at %v", heir.ExpiresAt)
	}
	if got := w.shown("ns_a"); got != "hourly forever2 hourly2 hourly3" {
		t.Errorf("the document shows %s", got)
	}
	w.pass(6 * time.Minute)
	w.ok(&StartTerm{})
	if got := w.shown("ns_a"); got != "forever2 hourly2 hourly3" {
		t.Errorf("after the overlap the document shows %s", got)
	}
	w.refused(api.NotFound, rotate("hourly", "x", w.clockNs+1)) // ended
	w.refused(api.NotFound, rotate("forever", "x", w.clockNs+1))
	taken := rotate("hourly2", "hourly3", w.clockNs+1)
	taken.NewHash = hash("y")
	w.refused(api.Conflict, taken)
}

func TestRevokeCredential(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(newOrg("acme"), newNamespace("org_acme", "a"), newKey(keyring.Namespace, "ns_a", "k1"), newKey(keyring.Org, "org_acme", "t1"))
	if got := w.shown("ns_a"); got != "k1 t1" {
		t.Errorf("the document shows %s", got)
	}
	w.ok(&RevokeCredential{Meta: by("t"), Id: "t1"}, &RevokeCredential{Meta: by("t"), Id: "k1"})
	if got := w.shown("ns_a"); got != "" {
		t.Errorf("the document shows %s", got)
	}
	w.refused(api.NotFound, &RevokeCredential{Meta: by("t"), Id: "k1"})
	// A process that still has the key in a file does not make it valid again.
	ensured := newKey(keyring.Namespace, "ns_a", "k1")
	ensured.Ensure = true
	w.refused(api.Conflict, ensured)
	w.ok(newKey(keyring.Namespace, "ns_a", "k2"))
	w.refused(api.Conflict, &RotateCredential{Meta: by("t"), OldId: "k2", NewId: "k1", NewHash: hash("k1"), OldExpiresNs: w.clockNs + 1})
	w.ok(&RevokeCredential{Meta: by("t"), Id: "k2"})
	left, err := w.store().Credentials(t.Context(), "ns_a")
	if err != nil || len(left) != 0 {
		t.Errorf("%v, %v", left, err)
	}
}

// A caller's revocation is refused when the credential or the caller's own has changed since their rights
// were compared.
func TestRevokeCredentialJudged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(newOrg("acme"), newKey(keyring.Org, "org_acme", "t1"), newKey(keyring.Org, "org_acme", "t2"))
	set := func(id string, judged int64) op {
		return &SetCredential{Meta: by("op"), Id: id, Roles: []string{"readonly"}, Enabled: true, JudgedVersion: judged}
	}
	w.ok(newKey(keyring.Org, "org_acme", "t3"), set("t1", 1), set("t2", 1))
	w.refused(api.Conflict, &RevokeCredential{Meta: by("t2"), Id: "t1", JudgedVersion: 1, CallerVersion: 2})
	w.refused(api.Conflict, &RevokeCredential{Meta: by("t2"), Id: "t1", JudgedVersion: 2, CallerVersion: 1})
	w.refused(api.PreconditionFailed, &RevokeCredential{Meta: by("t2"), Id: "t1", IfVersion: 1, JudgedVersion: 2, CallerVersion: 2})
	w.ok(&RevokeCredential{Meta: by("t2"), Id: "t1", IfVersion: 2, JudgedVersion: 2, CallerVersion: 2})
}

// A caller creates and rotates nothing when the old credential or the caller's own has changed since their
// rights were compared. A repeat of what was done is no change.
func TestNewCredentialJudged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(newOrg("acme"), newNamespace("org_acme", "a"), newKey(keyring.Org, "org_acme", "t1"), newKey(keyring.Org, "org_acme", "t2"), newKey(keyring.Namespace, "ns_a", "k1"))
	w.ok(&SetCredential{Meta: by("op"), Id: "k1", Roles: []string{"admin"}, Enabled: true, JudgedVersion: 1})
	create := newKey(keyring.Namespace, "ns_a", "k2")
	create.Meta, create.CallerVersion = by("t1"), 2
	w.refused(api.Conflict, create)
	create.CallerVersion = 1
	w.ok(create)
	rotate := func(judged, caller int64) *RotateCredential {
		return &RotateCredential{
			Meta: by("t1"), OldId: "k1", NewId: "k3", NewHash: hash("k3"), OldExpiresNs: w.clockNs + int64(time.Hour),
			JudgedVersion: judged, CallerVersion: caller,
		}
	}
	w.refused(api.Conflict, rotate(1, 1))
	w.refused(api.Conflict, rotate(2, 2))
	w.ok(rotate(2, 1))
	if c, _ := w.credential("k1"); c.Version != 3 {
		t.Errorf("the old key has the version %d after its rotation, want 3", c.Version)
	}
	w.ok(rotate(2, 1)) // a repeat
	w.ok(&RevokeCredential{Meta: by("op"), Id: "t1"})
	create = newKey(keyring.Namespace, "ns_a", "k4")
	create.Meta, create.CallerVersion = by("t1"), 1
	w.refused(api.Conflict, create)
	again := rotate(3, 1)
	again.NewId, again.NewHash = "k5", hash("k5")
	w.refused(api.Conflict, again)
}

// An expired credential is listed for a day and is then removed, from the cache too.
func TestExpiredCredentialsGo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(newOrg("acme"), newNamespace("org_acme", "a"))
	for i := range 3 * purgeRows {
		o := newKey(keyring.Namespace, "ns_a", fmt.Sprintf("k%03d", i))
		o.Credential.ExpiresNs = w.clockNs + int64(time.Minute)
		w.ok(o)
	}
	w.pass(ExpiredKept)
	w.ok(&StartTerm{})
	if n := len(w.credentials); n != 3*purgeRows {
		t.Errorf("%d are listed, want all", n)
	}
	w.pass(time.Minute)
	w.ok(&StartTerm{})
	if n := len(w.credentials); n == 0 || n == 3*purgeRows {
		t.Errorf("%d are left after an entry", n)
	}
	w.ok(&StartTerm{})
	w.ok(&StartTerm{})
	if n := len(w.credentials); n != 0 {
		t.Errorf("%d are left", n)
	}
}

// An expired credential is not confirmed as existing, while it is listed and after it is gone: its holder could
// not authenticate. This holds for every op that is a success if the credential exists.
func TestExpiredCredentialsAreNotConfirmed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(newOrg("acme"), newNamespace("org_acme", "a"))
	key, host := newKey(keyring.Namespace, "ns_a", "k1"), newHost("h1")
	key.Ensure, host.Ensure = true, true
	end := w.clockNs + int64(time.Minute)
	key.Credential.ExpiresNs, host.Credential.ExpiresNs = end, end
	rotate := &RotateCredential{Meta: by("t"), OldId: "k1", NewId: "k2", NewHash: hash("k2"), OldExpiresNs: end}
	again := []op{key, host, rotate}
	w.ok(again...)
	w.pass(time.Minute - 1)
	w.ok(again...) // they are valid until they end
	w.pass(1)
	w.refused(api.Conflict, key)
	w.refused(api.Conflict, host)
	w.pass(time.Minute) // the rotated key has the lifetime of the old one
	w.refused(api.Conflict, rotate)
	w.pass(ExpiredKept + time.Minute)
	w.ok(&StartTerm{}, &StartTerm{})
	for _, o := range again {
		w.refused(api.Conflict, o)
	}
}

func TestHosts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(newHost("h1"))
	w.refused(api.Conflict, newHost("h1"))
	again := newHost("h1")
	again.Ensure = true
	before := w.dump()
	if r := do[*CreateHostResult](w, again); r.Id != "host_h1" {
		t.Errorf("answered %v", r)
	}
	if diff := difference(before, w.dump()); diff != "" {
		t.Errorf("ensured again: %s", diff)
	}
	again.Id, again.Credential.Owner = "host_other", "host_other" // minted anew
	if r := do[*CreateHostResult](w, again); r.Id != "host_h1" {
		t.Errorf("answered %v, want the host that has the credential", r)
	}
	twin := newHost("h1")
	twin.Credential.Id = "cred_twin"
	w.refused(api.Conflict, twin)
	twin.Id, twin.Credential.Owner = "host_twin", "host_twin"
	w.refused(api.Conflict, twin) // the name
	w.refused(api.NotFound, join("none", ""))

	_, changed := w.changes.watch()
	w.ok(newGateway("g1"))
	select {
	case <-changed:
	default:
		t.Error("nobody was told of a new host")
	}
	w.ok(join("h1", "http://h1"))
	before = w.dump()
	w.ok(join("h1", "http://h1"))
	if diff := difference(before, w.dump()); diff != "" {
		t.Errorf("joined again: %s", diff)
	}
	w.ok(newOrg("acme"), newNamespace("org_acme", "a"), start("h1", "h1"), place("a", "h1"))
	s := w.store()
	for _, name := range []string{"h1", "host_h1"} {
		h, err := s.Host(t.Context(), name)
		if want := (fleet.Host{ID: "host_h1", Name: "h1", Kind: keyring.Host, Region: "here", Zone: "host_h1", Address: "http://h1", Raft: "h1:7000", Binary: "v1", Version: 4, CreatedNs: epochNs, Namespaces: 1, Cells: 1,
			Store: "store_h1", Run: 1}); err != nil || h != want {
			t.Errorf("%s is %+v, %v", name, h, err)
		}
	}
	all, err := s.Hosts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, h := range all {
		ids = append(ids, h.ID)
	}
	if diff := cmp.Diff([]string{"host_g1", "host_h1"}, ids); diff != "" {
		t.Errorf("hosts (-want +got):\n%s", diff)
	}
	if _, err := s.Host(t.Context(), "none"); refused(err, api.NotFound) != nil {
		t.Error(err)
	}
	if c, ok := w.credential("cred_g1"); !ok || c.Kind != keyring.Gateway || c.Owner != "host_g1" {
		t.Errorf("the gateway's credential is %+v", c)
	}
}

// The newest key signs. Older keys are trusted until their end, never longer than promised, and are then
// deleted.
func TestSigningKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	add := func(id string, until time.Duration) *AddSigningKey {
		return &AddSigningKey{Meta: by("op"), Id: id, Seed: hash(id), TrustedUntilNs: w.clockNs + int64(until)}
	}
	trusted := func() string {
		t.Helper()
		return strings.Join(ask(w, func(r reader) ([]string, error) {
			return list(r, scalar[string], "SELECT id || ':' || (trusted_until_ns / 1000000000 % 1000) FROM signing_keys ORDER BY number")
		}), " ")
	}
	w.ok(add("a", 0))
	w.ok(add("b", 100*time.Second))
	w.ok(add("c", 200*time.Second)) // a keeps the 100 it had
	if got := trusted(); got != "a:100 b:200 c:0" {
		t.Errorf("trusted are %s", got)
	}
	before := w.dump()
	w.ok(add("c", 500*time.Second))
	if diff := difference(before, w.dump()); diff != "" {
		t.Errorf("added again: %s", diff)
	}
	other := add("c", 0)
	other.Seed = hash("z")
	w.refused(api.Conflict, other)
	w.pass(150 * time.Second)
	w.ok(add("d", 20*time.Second)) // a is over; b ends sooner than it was to
	if got := trusted(); got != "b:170 c:170 d:0" {
		t.Errorf("trusted are %s", got)
	}
	w.ok(add("e", 0)) // all before it are out
	if got := trusted(); got != "e:0" {
		t.Errorf("trusted are %s", got)
	}
	w.limits.signingKeys = 3
	w.ok(add("f", time.Hour), add("g", time.Hour))
	w.refused(api.Conflict, add("h", time.Hour))
}
