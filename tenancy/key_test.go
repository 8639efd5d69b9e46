package tenancy

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestKeyValidate(t *testing.T) {
	t.Parallel()
	good := func(change func(*Key)) Key {
		k := Key{Name: "ci", Roles: []Role{Worker}, QueueScope: []Glob{"mail.*"}}
		change(&k)
		return k
	}
	for _, c := range []struct {
		name  string
		key   Key
		fault string // "" = none
	}{
		{"plain", good(func(*Key) {}), ""},
		{"no name, no scope", good(func(k *Key) { k.Name, k.QueueScope = "", nil }), ""},
		{"longest name", good(func(k *Key) { k.Name = strings.Repeat("n", MaxKeyName) }), ""},
		{"name too long", good(func(k *Key) { k.Name = strings.Repeat("n", MaxKeyName+1) }), "name has 129 bytes"},
		{"no role", good(func(k *Key) { k.Roles = nil }), "roles has 0 entries"},
		{"unknown role", good(func(k *Key) { k.Roles = []Role{"root"} }), `roles: "root" is not a role`},
		{"most roles", good(func(k *Key) { k.Roles = slices.Repeat([]Role{Worker}, MaxKeyRoles) }), ""},
		{"too many roles", good(func(k *Key) { k.Roles = slices.Repeat([]Role{Worker}, MaxKeyRoles+1) }), "roles has 17 entries"},
		{"widest scope", good(func(k *Key) { k.QueueScope = slices.Repeat([]Glob{"q"}, MaxQueueScope) }), ""},
		{"scope too wide", good(func(k *Key) { k.QueueScope = slices.Repeat([]Glob{"q"}, MaxQueueScope+1) }), "queue_scope has 65 entries"},
		{"bad glob", good(func(k *Key) { k.QueueScope = []Glob{"a b"} }), "queue_scope: queue pattern"},
	} {
		err := c.key.Validate()
		if (err != nil) != (c.fault != "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s: %v, want %q", c.name, err, c.fault)
		}
	}
	err := Key{Roles: []Role{"x", "y"}, QueueScope: []Glob{""}}.Validate()
	if got := strings.Count(err.Error(), "\n") + 1; got != 3 {
		t.Errorf("Validate lists %d faults of 3:\n%v", got, err)
	}
}

func TestKeyExpired(t *testing.T) {
	t.Parallel()
	end := time.Unix(1_700_000_000, 0)
	k := Key{ExpiresAt: end}
	for now, want := range map[time.Time]bool{
		end.Add(-1): false,
		end:         true,
		end.Add(1):  true,
	} {
		if k.Expired(now) != want {
			t.Errorf("expired at %v is %v, want %v", now, !want, want)
		}
	}
	if (Key{}).Expired(end) {
		t.Error("a key without an end expires")
	}
}

func TestKeyPrincipal(t *testing.T) {
	t.Parallel()
	k := Key{ID: "id", Name: "ci", Roles: []Role{Worker}, QueueScope: []Glob{"a"}}
	p := k.Principal(Default)
	want := Principal{Namespace: Default, KeyID: "id", Name: "ci", Roles: k.Roles, QueueScope: k.QueueScope}
	if diff := cmp.Diff(want, p); diff != "" {
		t.Errorf("principal of %+v (-want +got):\n%s", k, diff)
	}
	for want, p := range map[string]Principal{
		"key id (ci)":            p,
		"key id":                 {KeyID: "id"},
		"dev":                    {Name: "dev"},
		"a caller without a key": {},
	} {
		if p.String() != want {
			t.Errorf("%+v is called %q, want %q", p, p, want)
		}
	}
}
