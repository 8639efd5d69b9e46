package fleet

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
)

var noon = time.Date(2026, 5, 17, 12, 0, 0, 0, time.UTC)

// pair is a credential and its key in the form of a document.
type pair struct {
	text string
	key  Key
}

func newPair(t testing.TB, kind keyring.Kind) pair {
	t.Helper()
	text, id, hash, err := keyring.New(rand.Reader, kind)
	if err != nil {
		t.Fatal(err)
	}
	return pair{text, Key{ID: id, Name: "ci", Roles: []string{"worker", "readonly"}, QueueScope: []string{"mail.*"}, Hash: hash[:], CreatedNs: 1}}
}

// docOf returns a document of organisation o.
func docOf(number int64, namespace, name string, keys ...pair) Doc {
	d := Doc{Number: number, Namespace: namespace, Name: name, Org: "o", Desired: Open, Ready: true}
	for _, k := range keys {
		d.Keys = append(d.Keys, k.key)
	}
	return d
}

// A key's custom roles have the permissions in the same document. A role that the document does not have
// has none.
func TestAuthenticateWithCustomRoles(t *testing.T) {
	t.Parallel()
	auditor, lost, mixed, token := newPair(t, keyring.Namespace), newPair(t, keyring.Namespace), newPair(t, keyring.Namespace), newPair(t, keyring.Org)
	auditor.key.Roles, lost.key.Roles, mixed.key.Roles, token.key.Roles = []string{"auditor"}, []string{"nobody"}, []string{"worker", "nobody"}, []string{"readonly"}
	d := docOf(1, "n1", "one", auditor, lost, mixed, token)
	d.Roles = []Role{
		{Name: "auditor", Permissions: []string{"job.read", "org.manage", "of.tomorrow"}},
		{Name: "readonly", Permissions: []string{"node.admin"}}, // the name of a built-in role
	}
	dir := NewDirectory()
	dir.Put(d)
	two := docOf(2, "n2", "two", token)
	two.Roles = []Role{{Name: "nobody", Permissions: []string{"job.read"}}}
	dir.Put(two)
	for _, c := range []struct {
		name, text, hint string
		may              []tenancy.Permission
	}{
		{"a custom role", auditor.text, "", []tenancy.Permission{tenancy.JobRead}},
		{"an unknown role", lost.text, "", nil},
		{"an unknown role beside a built-in one", mixed.text, "", tenancy.Worker.Permissions()},
		{"a token", token.text, "n1", tenancy.ReadOnly.Permissions()},
	} {
		who, _, err := dir.Authenticate(c.text, c.hint, noon)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		for _, p := range tenancy.Permissions() {
			err := tenancy.Allow(who, p, tenancy.Where{Namespace: "n1"})
			if want := slices.Contains(c.may, p); (err == nil) != want || err != nil && api.CodeOf(err) != api.Forbidden {
				t.Errorf("%s: %s: %v, want it to be allowed: %v", c.name, p, err, want)
			}
		}
	}
	d.Number, d.Roles = 3, []Role{{Name: "auditor", Permissions: []string{"job.work"}}}
	dir.Put(d)
	if who, _, err := dir.Authenticate(auditor.text, "", noon); err != nil || !slices.Equal(who.Custom, []tenancy.Permission{tenancy.JobWork}) {
		t.Errorf("after a change: %+v, %v", who, err)
	}
}

func TestAuthenticate(t *testing.T) {
	t.Parallel()
	key, other, token, org := newPair(t, keyring.Namespace), newPair(t, keyring.Namespace), newPair(t, keyring.Org), newPair(t, keyring.Org)
	ending := newPair(t, keyring.Namespace)
	ending.key.ExpiresNs = noon.UnixNano()
	lying := newPair(t, keyring.Namespace) // its id, with the hash of another key
	lying.key.Hash = key.key.Hash
	short := newPair(t, keyring.Namespace)
	short.key.Hash = short.key.Hash[:31]
	operator := newPair(t, keyring.CloudOperator)
	dir := NewDirectory()
	dir.Put(docOf(1, "n1", "one", key, token, ending, lying, short, operator))
	dir.Put(docOf(2, "n2", "two", other, token))
	dir.Put(docOf(3, "n3", "n1", token)) // its name is the id of another
	dir.Put(Doc{Number: 4, Namespace: "n4", Name: "one", Org: "p", Desired: Open, Keys: []Key{org.key}})
	for _, c := range []struct {
		name, text, hint string
		code             api.Code
		namespace        string
	}{
		{"a key", key.text, "", "", "n1"},
		{"a key, its id", key.text, "n1", "", "n1"},
		{"a key, its name", key.text, "one", "", "n1"},
		{"a token, an id", token.text, "n2", "", "n2"},
		{"a token, a name", token.text, "two", "", "n2"},
		{"an id before a name", token.text, "n1", "", "n1"},
		{"another organisation's namespace of that name", org.text, "one", "", "n4"},

		{"a key elsewhere", key.text, "n2", api.Forbidden, ""},
		{"a key nowhere", key.text, "n9", api.Forbidden, ""},
		{"a token without a hint", token.text, "", api.ValidationError, ""},
		{"a token nowhere", token.text, "n9", api.NotFound, ""},
		{"a token in another organisation", token.text, "n4", api.NotFound, ""},
		{"another organisation's token", org.text, "n1", api.NotFound, ""},
		{"an expired key", ending.text, "", api.Unauthorized, ""},
		{"another key's hash", lying.text, "", api.Unauthorized, ""},
		{"no hash", short.text, "", api.Unauthorized, ""},
		{"a key of another kind", operator.text, "", api.Unauthorized, ""},
		{"an unknown key", newPair(t, keyring.Namespace).text, "", api.Unauthorized, ""},
		{"an unknown key, somewhere", newPair(t, keyring.Namespace).text, "n1", api.Unauthorized, ""},
		{"an unknown token", newPair(t, keyring.Org).text, "n1", api.Unauthorized, ""},
		{"an unknown token nowhere", newPair(t, keyring.Org).text, "n9", api.Unauthorized, ""},
		{"nothing", "", "", api.Unauthorized, ""},
		{"an id alone", key.key.ID, "", api.Unauthorized, ""},
	} {
		who, d, err := dir.Authenticate(c.text, c.hint, noon)
		if api.CodeOf(err) != c.code || d.Namespace != c.namespace || string(who.Namespace) != c.namespace {
			t.Errorf("%s: %+v in %q, %v; want %q or %s", c.name, who, d.Namespace, err, c.namespace, c.code)
		}
		if err != nil && (who.KeyID != "" || who.Roles != nil) {
			t.Errorf("%s: refused, and yet %+v", c.name, who)
		}
	}
	who, _, err := dir.Authenticate(key.text, "", noon)
	if err != nil {
		t.Fatal(err)
	}
	want := who
	want.KeyID, want.Name, want.Org, want.Open = key.key.ID, "ci", "", false
	want.Roles, want.QueueScope = []tenancy.Role{"worker", "readonly"}, []tenancy.Glob{"mail.*"}
	if diff := cmp.Diff(want, who); diff != "" {
		t.Errorf("the principal (-want +got):\n%s", diff)
	}
	if _, _, err := dir.Authenticate(ending.text, "", noon.Add(-1)); err != nil {
		t.Errorf("just before its end: %v", err)
	}
	if _, _, err := dir.Authenticate(token.text, "", noon); err == nil || !strings.Contains(err.Error(), api.NamespaceHeader) {
		t.Errorf("it does not name the header: %v", err)
	}
}

// TestDirectoryForgets checks that only the newest document of a namespace counts.
func TestDirectoryForgets(t *testing.T) {
	t.Parallel()
	key, token := newPair(t, keyring.Namespace), newPair(t, keyring.Org)
	code := func(dir *Directory, p pair, hint string) api.Code {
		_, _, err := dir.Authenticate(p.text, hint, noon)
		return api.CodeOf(err)
	}
	dir := NewDirectory()
	dir.Put(docOf(5, "n1", "one", key, token))
	dir.Put(docOf(6, "n2", "two", token))
	for _, old := range []int64{4, 5} {
		if dir.Put(docOf(old, "n1", "one")) {
			t.Errorf("document %d is taken after 5", old)
		}
	}
	if !dir.Put(docOf(7, "n1", "uno", token)) || code(dir, key, "") != api.Unauthorized {
		t.Error("a key that is gone still opens")
	}
	if code(dir, token, "one") != api.NotFound || code(dir, token, "uno") != "" {
		t.Error("the old name is still known, or the new one not")
	}
	// The last document, with keys that should not be there.
	gone := docOf(8, "n1", "uno", key, token)
	gone.Desired = Absent
	dir.Put(gone)
	for _, c := range []struct {
		name string
		p    pair
		hint string
		want api.Code
	}{
		{"its key", key, "", api.Unauthorized},
		{"a token, by its id", token, "n1", api.NotFound},
		{"a token, by its name", token, "uno", api.NotFound},
		{"a token for another namespace", token, "two", ""},
	} {
		if got := code(dir, c.p, c.hint); got != c.want {
			t.Errorf("%s: %q after the namespace is to be absent, want %q", c.name, got, c.want)
		}
	}
	// The name is free: the next namespace with it keeps it when another document of the old one comes.
	dir.Put(docOf(9, "n3", "uno", token))
	gone.Number = 10
	dir.Put(gone)
	if code(dir, token, "uno") != "" {
		t.Error("a namespace lost its name to one that is gone")
	}
	dir.Put(docOf(11, "n2", "two"))
	if code(dir, token, "two") != api.Unauthorized {
		t.Error("a token that this namespace does not name enters it")
	}
	dir.Put(docOf(12, "n3", "uno"))
	if code(dir, token, "n9") != api.Unauthorized || len(dir.owners) != 0 {
		t.Errorf("a token that no document names is known; %d keys are kept", len(dir.owners))
	}
	var ids []string
	for _, d := range dir.Docs() {
		ids = append(ids, d.Namespace)
		if d.Desired == Absent && d.Keys != nil {
			t.Error("keys of an absent namespace are kept")
		}
	}
	if !slices.Equal(ids, []string{"n1", "n2", "n3"}) {
		t.Errorf("documents of %v", ids)
	}
	if d, ok := dir.Namespace("n1"); !ok || d.Number != 10 {
		t.Errorf("%+v, %v", d, ok)
	}
	if _, ok := dir.Namespace("n9"); ok {
		t.Error("a document of nothing")
	}
	unknown := docOf(13, "n2", "two", key)
	unknown.Desired = "a word of a newer control plane"
	dir.Put(unknown)
	if code(dir, key, "") != api.Unauthorized {
		t.Error("a namespace in a state that is not understood is open")
	}
}

// TestDirectoryAgreesWithItsDefinition puts documents in any order and compares with a model: the newest document of each
// kind and subject, without the keys of namespaces that are not open and the tokens of organisations that closed their last.
func TestDirectoryAgreesWithItsDefinition(t *testing.T) {
	t.Parallel()
	var pairs []pair
	for i := range 8 {
		pairs = append(pairs, newPair(t, []keyring.Kind{keyring.Namespace, keyring.Org}[i%2]))
	}
	orgs := []string{"o0", "o0", "o1"} // of the namespaces; key 2n is of namespace n, tokens 1, 3 of o0, tokens 5, 7 of o1
	rapid.Check(t, func(t *rapid.T) {
		dir := NewDirectory()
		newest := map[subject]Doc{}
		opened := func(org string) (n int) {
			for i, of := range orgs {
				if of == org && newest[subject{KindPlacement, fmt.Sprint("n", i)}].Desired == Open {
					n++
				}
			}
			return n
		}
		some := func(from ...int) (keys []Key) {
			for _, i := range from {
				if rapid.Bool().Draw(t, "key") {
					keys = append(keys, pairs[i].key)
				}
			}
			return keys
		}
		for range rapid.IntRange(1, 30).Draw(t, "documents") {
			n := rapid.IntRange(0, 2).Draw(t, "namespace")
			d := Doc{Number: rapid.Int64Range(1, 30).Draw(t, "number"), Namespace: fmt.Sprint("n", n), Org: orgs[n]}
			switch d.Kind = rapid.SampledFrom([]string{KindPlacement, KindKeys, KindTokens}).Draw(t, "kind"); d.Kind {
			case KindPlacement:
				d.Name, d.Desired = fmt.Sprint("name", n), rapid.SampledFrom([]string{Open, Open, Absent, Leave}).Draw(t, "desired")
			case KindKeys:
				d.Keys = some(2 * n)
			case KindTokens:
				d.Namespace = ""
				d.Keys = some(n/2*4+1, n/2*4+3)
			}
			old, had := newest[d.subject()]
			before := opened(d.Org)
			took, want := dir.Put(d), !had || d.Number > old.Number
			if took != want {
				t.Fatalf("Put says %v, want %v", took, want)
			}
			if !took {
				continue
			}
			newest[d.subject()] = d
			if d.Kind == KindPlacement && d.Desired != Open {
				delete(newest, subject{KindKeys, d.Namespace})
				if before > 0 && opened(d.Org) == 0 {
					delete(newest, subject{KindTokens, d.Org})
				}
			}
		}
		for i, p := range pairs {
			for n, org := range orgs {
				id := fmt.Sprint("n", n)
				from := newest[subject{KindTokens, org}].Keys
				if i%2 == 0 {
					from = newest[subject{KindKeys, id}].Keys
				}
				holds := newest[subject{KindPlacement, id}].Desired == Open && slices.ContainsFunc(from, func(k Key) bool { return k.ID == p.key.ID })
				if _, _, err := dir.Authenticate(p.text, fmt.Sprint("name", n), noon); (err == nil) != holds {
					t.Fatalf("key %d with %s: %v; the documents name it: %v", i, id, err, holds)
				}
			}
		}
	})
}

// TestDirectoryAtOnce lets the race detector watch concurrent requests and documents.
func TestDirectoryAtOnce(t *testing.T) {
	t.Parallel()
	key := newPair(t, keyring.Namespace)
	dir := NewDirectory()
	dir.Put(docOf(1, "n1", "one", key))
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 500 {
				if _, _, err := dir.Authenticate(key.text, "", noon); err != nil {
					t.Error(err)
					return
				}
				dir.Docs()
			}
		})
	}
	for n := range int64(500) {
		dir.Put(docOf(n+2, "n1", "one", key))
	}
	all.Wait()
}

// TestAuthenticateDoesNotAllocate guards the cost of a call that every request makes.
func TestAuthenticateDoesNotAllocate(t *testing.T) {
	key, token := newPair(t, keyring.Namespace), newPair(t, keyring.Org)
	dir := NewDirectory()
	dir.Put(docOf(1, "n1", "one", key, token))
	m, err := NewMember(MemberConfig{
		ControlPlane: "http://127.0.0.1:1", Credential: newPair(t, keyring.Gateway).text, Now: func() time.Time { return noon },
	})
	if err != nil {
		t.Fatal(err)
	}
	ready := func(d Doc) bool { return d.Ready }
	for text, hint := range map[string]string{key.text: "", token.text: "one"} {
		if got := testing.AllocsPerRun(100, func() {
			if _, _, err := dir.Authenticate(text, hint, noon); err != nil {
				t.Fatal(err)
			}
		}); got != 0 {
			t.Errorf("Authenticate allocates %v times, want 0", got)
		}
		if got := testing.AllocsPerRun(100, func() {
			if _, _, err := m.Authenticate(t.Context(), dir, text, hint, ready); err != nil {
				t.Fatal(err)
			}
		}); got != 0 {
			t.Errorf("a member's Authenticate allocates %v times, want 0", got)
		}
	}
}
