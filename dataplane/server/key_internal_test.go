package server

import (
	"context"
	"crypto/sha256"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/host"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/router"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/tenancy"
)

// TestKeyIsJudgedAsItIsChanged changes a key while another request changes it between the check and the
// change. If the key gains rights, a caller with fewer rights can neither change nor revoke it. If the key
// gains none, the caller's change is checked again and made. After a second change by another request, the
// caller gets CONFLICT.
func TestKeyIsJudgedAsItIsChanged(t *testing.T) {
	t.Parallel()
	n := OpenForTest(t, host.Config{}, host.Spec{}, nil)
	clerk := tenancy.Principal{Namespace: tenancy.Default, KeyID: "clerk", Custom: []tenancy.Permission{tenancy.KeyManage, tenancy.JobRead}}
	reader := httptest.NewRequest("PUT", "/api/v1/auth/roles/reader", strings.NewReader(`{"permissions":["job.read"]}`))
	reader.Header.Set("X-API-Key", KeyForTest(t, n.Cell, tenancy.Key{Roles: []tenancy.Role{tenancy.Admin}}))
	declared := httptest.NewRecorder()
	if n.Server.ServeHTTP(declared, reader); declared.Code != http.StatusCreated {
		t.Fatalf("declare a role: %d %s", declared.Code, declared.Body)
	}
	hash := sha256.Sum256([]byte("another secret"))
	ways := map[string]func(q *request, was *state.Key) op.Op{
		"set": func(q *request, was *state.Key) op.Op {
			return setting(q, was, &state.Key{Name: "mine", Roles: []string{"reader"}, Enabled: true}, 0)
		},
		"rotated": func(q *request, was *state.Key) op.Op {
			return rotating(q, was, hash[:], 0)
		},
		"revoked": revoking,
	}
	for what, way := range ways {
		for _, c := range []struct {
			meanwhile []string // the roles that another request gives it
			times     int      // how often
			want      api.Code
			tries     int
		}{
			{nil, 0, "", 1},
			{[]string{"reader"}, 1, "", 2},
			{[]string{"reader"}, 2, api.Conflict, 2},
			{[]string{"admin"}, 1, api.Forbidden, 1},
		} {
			id, tries := KeyIDForTest(KeyForTest(t, n.Cell, tenancy.Key{Roles: []tenancy.Role{"reader"}})), 0
			shards, err := router.Open(n.Host, tenancy.Default)
			if err != nil {
				t.Fatal(err)
			}
			q := &request{who: clerk, shards: shards, meta: &op.Meta{Principal: "clerk"}}
			r, w := httptest.NewRequest("PUT", "/", nil), httptest.NewRecorder()
			r.SetPathValue("id", id)
			try := func(was *state.Key) (op.Op, error) {
				tries++
				o := way(q, was)
				if tries <= c.times {
					other := &op.SetKey{Id: id, Name: "theirs", Roles: c.meanwhile, Enabled: true}
					if _, _, err := cell.Propose[*op.SetKeyResult](context.Background(), n.Cell, other); err != nil {
						t.Fatal(err)
					}
				}
				return o, nil
			}
			switch what {
			case "set":
				_, err = changeKey[*op.SetKeyResult](n.Server, w, r, q, try)
			case "rotated":
				_, err = changeKey[*op.RotateKeyResult](n.Server, w, r, q, try)
			case "revoked":
				_, err = changeKey[*op.RevokeKeyResult](n.Server, w, r, q, try)
			}
			if api.CodeOf(err) != c.want || tries != c.tries {
				t.Errorf("%s while somebody gives it %v %d times: %v after %d tries, want %q after %d", what, c.meanwhile, c.times, err, tries, c.want, c.tries)
			}
			if now := n.Cell.State().Key(id); c.want != "" && (now.Name != "theirs" || !slices.Equal(now.Roles, c.meanwhile) || slices.Equal(now.Hash, hash[:])) {
				t.Errorf("%s while somebody gives it %v: it is %v", what, c.meanwhile, now)
			}
		}
	}
}

// TestCallerIsJudgedAsItChangesAKey narrows, disables or revokes the caller's key between the check of its
// rights and the caller's change of another key. The other key stays as it is, and the error is CONFLICT.
func TestCallerIsJudgedAsItChangesAKey(t *testing.T) {
	t.Parallel()
	n := OpenForTest(t, host.Config{}, host.Spec{}, nil)
	ctx := context.Background()
	shards, err := router.Open(n.Host, tenancy.Default)
	if err != nil {
		t.Fatal(err)
	}
	hash := sha256.Sum256([]byte("another secret"))
	narrow := func(id string) error {
		_, _, err := cell.Propose[*op.SetKeyResult](ctx, n.Cell, &op.SetKey{Id: id, Roles: []string{"readonly"}, Enabled: true})
		return err
	}
	disable := func(id string) error {
		_, _, err := cell.Propose[*op.SetKeyResult](ctx, n.Cell, &op.SetKey{Id: id, Roles: []string{"admin"}})
		return err
	}
	revoke := func(id string) error {
		_, _, err := cell.Propose[*op.RevokeKeyResult](ctx, n.Cell, &op.RevokeKey{Id: id})
		return err
	}
	for meanwhile, change := range map[string]func(id string) error{"narrowed": narrow, "disabled": disable, "revoked": revoke, "let be": nil} {
		for _, what := range []string{"set", "rotated", "revoked"} {
			caller, id := KeyForTest(t, n.Cell, tenancy.Key{Roles: []tenancy.Role{"admin"}}), KeyIDForTest(KeyForTest(t, n.Cell, tenancy.Key{Roles: []tenancy.Role{"readonly"}}))
			r, w := httptest.NewRequest("PUT", "/", nil), httptest.NewRecorder()
			r.Header.Set("X-API-Key", caller)
			r.SetPathValue("id", id)
			q := &request{who: tenancy.Principal{Namespace: tenancy.Default, KeyID: KeyIDForTest(caller)}, shards: shards, meta: &op.Meta{Principal: KeyIDForTest(caller)}}
			if err := n.Server.authoriseAgain(r, q); err != nil {
				t.Fatal(err)
			}
			was := n.Cell.State().Key(id)
			late := func(way func(was *state.Key) op.Op) func(was *state.Key) (op.Op, error) {
				return func(was *state.Key) (op.Op, error) {
					if change == nil {
						return way(was), nil
					}
					return way(was), change(KeyIDForTest(caller))
				}
			}
			switch what {
			case "set":
				_, err = changeKey[*op.SetKeyResult](n.Server, w, r, q, late(func(was *state.Key) op.Op {
					return setting(q, was, &state.Key{Roles: []string{"admin"}, Enabled: true}, 0)
				}))
			case "rotated":
				_, err = changeKey[*op.RotateKeyResult](n.Server, w, r, q, late(func(was *state.Key) op.Op { return rotating(q, was, hash[:], 0) }))
			case "revoked":
				_, err = changeKey[*op.RevokeKeyResult](n.Server, w, r, q, late(func(was *state.Key) op.Op { return revoking(q, was) }))
			}
			want := api.Conflict
			if change == nil {
				want = ""
			}
			if now := n.Cell.State().Key(id); api.CodeOf(err) != want || proto.Equal(now, was) != (change != nil) {
				t.Errorf("%s by a key that is %s meanwhile: %v, and it is %v", what, meanwhile, err, now)
			}
		}
	}
}
