package tenancy

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

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
