package server

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
)

// A secret that the client generated stays with the client. The control plane knows its hash and shows
// neither.
func TestSecretsStayWithTheirMaker(t *testing.T) {
	t.Parallel()
	f, admin := start(t)
	f.namespace("acme", "orders")
	c, ctx := f.cloud(admin), t.Context()
	secret, err := client.NewSecret()
	if err != nil {
		t.Fatal(err)
	}
	made, err := c.CreateNamespaceKey(ctx, "orders", api.CreateCloudKeyRequest{
		CreateKeyRequest: api.CreateKeyRequest{Name: "ci", Roles: []string{"worker"}}, ID: secret.ID, Hash: secret.Hash,
	})
	if err != nil || made.ID != secret.ID || made.APIKey != "" {
		t.Fatalf("created %+v, %v", made, err)
	}
	fresh, err := client.NewSecret()
	if err != nil {
		t.Fatal(err)
	}
	rotated, err := c.RotateNamespaceKey(ctx, "orders", made.ID, api.RotateKeyRequest{ID: fresh.ID, Hash: fresh.Hash, Overlap: "1h"})
	if err != nil {
		t.Fatal(err)
	}
	if rotated.ID != fresh.ID || rotated.APIKey != "" || !slices.Equal(rotated.Roles, []string{"worker"}) {
		t.Errorf("rotated to %+v", rotated)
	}
	// A used id is refused with any hash.
	if _, err := c.CreateNamespaceKey(ctx, "orders", api.CreateCloudKeyRequest{ID: secret.ID, Hash: fresh.Hash}); api.CodeOf(err) != api.Conflict {
		t.Errorf("an id that is taken: %v", err)
	}
	minted, err := c.CreateNamespaceKey(ctx, "orders", api.CreateCloudKeyRequest{CreateKeyRequest: api.CreateKeyRequest{Name: "minted"}})
	if err != nil || minted.APIKey == "" {
		t.Fatalf("minted %+v, %v", minted, err)
	}
	if kind, id, ok := keyring.Parse(minted.APIKey); !ok || kind != keyring.Namespace || id != minted.ID {
		t.Errorf("the minted key is %q of %q, %v", id, kind, ok)
	}
	seen := f.log.String() + string(f.send("GET", "/cloud/v1/namespaces/orders/keys", admin, "").body)
	for _, hidden := range []string{secret.Text, secret.Hash, fresh.Text, minted.APIKey, admin, f.operator} {
		if strings.Contains(seen, hidden) {
			t.Errorf("%.12s... is in the log or in a list", hidden)
		}
	}
}

// A key gets the requested settings, and the fewest rights where the request names none.
func TestKeyDefaults(t *testing.T) {
	t.Parallel()
	f, admin := start(t)
	f.namespace("acme", "orders")
	c, ctx := f.cloud(admin), t.Context()
	plain, err := c.CreateNamespaceKey(ctx, "orders", api.CreateCloudKeyRequest{})
	if err != nil {
		t.Fatal(err)
	}
	least := api.Key{ID: plain.ID, Roles: []string{"readonly"}, Enabled: true, CreatedAt: plain.CreatedAt}
	if diff := cmp.Diff(least, plain.Key, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("a key that asks for nothing (-want +got):\n%s", diff)
	}
	at := api.TimeOf(f.now().Add(time.Hour))
	full, err := c.CreateNamespaceKey(ctx, "orders", api.CreateCloudKeyRequest{CreateKeyRequest: api.CreateKeyRequest{
		Name: "full", Roles: []string{"operator", "worker"}, QueueScope: []string{"a.*", "b"}, ExpiresAt: at,
	}})
	if err != nil {
		t.Fatal(err)
	}
	most := api.Key{ID: full.ID, Name: "full", Roles: []string{"operator", "worker"}, QueueScope: []string{"a.*", "b"}, Enabled: true, CreatedAt: full.CreatedAt, ExpiresAt: &at}
	if diff := cmp.Diff(most, full.Key); diff != "" {
		t.Errorf("a key that asks for all (-want +got):\n%s", diff)
	}
	long := strings.Repeat("n", tenancy.MaxKeyName)
	if _, err := c.CreateNamespaceKey(ctx, "orders", api.CreateCloudKeyRequest{CreateKeyRequest: api.CreateKeyRequest{Name: long}}); err != nil {
		t.Errorf("the longest name: %v", err)
	}
	if _, err := c.CreateNamespaceKey(ctx, "orders", api.CreateCloudKeyRequest{CreateKeyRequest: api.CreateKeyRequest{Name: long + "n"}}); api.CodeOf(err) != api.ValidationError {
		t.Errorf("a longer name: %v", err)
	}
	if _, err := c.RotateNamespaceKey(ctx, "orders", full.ID, api.RotateKeyRequest{Overlap: "168h"}); err != nil {
		t.Errorf("the longest overlap: %v", err)
	}
	if _, err := c.RotateNamespaceKey(ctx, "orders", full.ID, api.RotateKeyRequest{Overlap: "168h0m1s"}); api.CodeOf(err) != api.ValidationError {
		t.Errorf("a longer overlap: %v", err)
	}
}

// A key belongs to one namespace. It is not found under another namespace's path, and a cloud token is not
// found among a namespace's keys.
func TestKeysHaveOneOwner(t *testing.T) {
	t.Parallel()
	f, admin := start(t)
	f.namespace("acme", "orders")
	f.namespace("acme", "mail")
	c, ctx := f.cloud(admin), t.Context()
	made, err := c.CreateNamespaceKey(ctx, "orders", api.CreateCloudKeyRequest{})
	if err != nil {
		t.Fatal(err)
	}
	_, adminID, _ := keyring.Parse(admin)
	for what, err := range map[string]error{
		"get by another namespace":    func() error { _, err := c.NamespaceKey(ctx, "mail", made.ID); return err }(),
		"revoke by another namespace": c.RevokeNamespaceKey(ctx, "mail", made.ID, 0),
		"rotate by another namespace": func() error { _, err := c.RotateNamespaceKey(ctx, "mail", made.ID, api.RotateKeyRequest{}); return err }(),
		"revoke as a token":           c.RevokeToken(ctx, "acme", made.ID, 0),
		"a token as a key":            c.RevokeNamespaceKey(ctx, "orders", adminID, 0),
	} {
		if api.CodeOf(err) != api.NotFound {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := c.NamespaceKey(ctx, "orders", made.ID); err != nil {
		t.Errorf("the key after all that: %v", err)
	}
	if err := c.RevokeNamespaceKey(ctx, "orders", made.ID, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := c.NamespaceKey(ctx, "orders", made.ID); api.CodeOf(err) != api.NotFound {
		t.Errorf("a revoked key: %v", err)
	}
}

// A revoked token is invalid at once. The API reports when a token was last used.
func TestTokensEndAtOnce(t *testing.T) {
	t.Parallel()
	f, admin := start(t)
	c, ctx := f.cloud(admin), t.Context()
	made, err := c.CreateToken(ctx, "acme", api.CreateCloudKeyRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.cloud(made.APIKey).Org(ctx, "acme"); err != nil {
		t.Fatal(err)
	}
	if used, err := c.Token(ctx, "acme", made.ID); err != nil || used.LastUsedAt == nil {
		t.Errorf("after its use: %+v, %v", used, err)
	}
	if err := c.RevokeToken(ctx, "acme", made.ID, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := f.cloud(made.APIKey).Org(ctx, "acme"); api.CodeOf(err) != api.Unauthorized {
		t.Errorf("after its end: %v", err)
	}
	soon, err := c.CreateToken(ctx, "acme", api.CreateCloudKeyRequest{CreateKeyRequest: api.CreateKeyRequest{ExpiresAt: api.TimeOf(f.now().Add(time.Hour))}})
	if err != nil {
		t.Fatal(err)
	}
	f.ahead.Add(int64(time.Hour))
	if _, err := f.cloud(soon.APIKey).Org(ctx, "acme"); api.CodeOf(err) != api.Unauthorized {
		t.Errorf("after its time: %v", err)
	}
}

// A caller cannot create, rotate or revoke a key with more rights than its own token.
func TestKeysDoNotGrow(t *testing.T) {
	t.Parallel()
	f, _ := start(t)
	f.namespace("acme", "orders")
	scoped := f.keep(tenancy.Key{Roles: []tenancy.Role{tenancy.Admin}, QueueScope: []tenancy.Glob{"mine.*"}}, keyring.Org, f.acme())
	c, ctx := f.cloud(scoped), t.Context()
	if _, err := c.CreateNamespaceKey(ctx, "orders", api.CreateCloudKeyRequest{CreateKeyRequest: api.CreateKeyRequest{QueueScope: []string{"mine.a"}}}); err != nil {
		t.Errorf("a key within the scope: %v", err)
	}
	wide, err := f.cloud(f.operator).CreateNamespaceKey(ctx, f.ns("orders"), api.CreateCloudKeyRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"create without a scope": func() error {
			_, err := c.CreateNamespaceKey(ctx, "orders", api.CreateCloudKeyRequest{})
			return err
		}(),
		"create beyond": func() error {
			_, err := c.CreateToken(ctx, "acme", api.CreateCloudKeyRequest{CreateKeyRequest: api.CreateKeyRequest{QueueScope: []string{"*"}}})
			return err
		}(),
		"rotate": func() error {
			_, err := c.RotateNamespaceKey(ctx, "orders", wide.ID, api.RotateKeyRequest{})
			return err
		}(),
		"revoke": c.RevokeNamespaceKey(ctx, "orders", wide.ID, 0),
	} {
		if api.CodeOf(err) != api.Forbidden {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// ns returns the id of a namespace of acme.
func (f *front) ns(name string) string {
	f.t.Helper()
	ns, err := f.store.Namespace(f.t.Context(), tenancy.OrgID(f.acme()), name)
	if err != nil {
		f.t.Fatal(err)
	}
	return string(ns.ID)
}

// The client's deletions send the version that the caller has read.
func TestDeletionsInsistOnAVersion(t *testing.T) {
	t.Parallel()
	f, admin := start(t)
	f.namespace("acme", "orders")
	c, ctx := f.cloud(admin), t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	change := api.SetKeyRequest{CreateKeyRequest: api.CreateKeyRequest{Roles: []string{"readonly"}}}
	key, err := c.CreateNamespaceKey(ctx, "orders", api.CreateCloudKeyRequest{})
	must(err)
	token, err := c.CreateToken(ctx, "acme", api.CreateCloudKeyRequest{})
	must(err)
	changedKey, err := c.SetNamespaceKey(ctx, "orders", key.ID, change, 1)
	must(err)
	changedToken, err := c.SetToken(ctx, "acme", token.ID, change, 1)
	must(err)
	ns, err := c.Namespace(ctx, "orders")
	must(err)
	for what, deletion := range map[string]struct {
		version int64
		do      func(version int64) error
	}{
		"a key":       {changedKey.Version, func(v int64) error { return c.RevokeNamespaceKey(ctx, "orders", key.ID, v) }},
		"a token":     {changedToken.Version, func(v int64) error { return c.RevokeToken(ctx, "acme", token.ID, v) }},
		"a namespace": {ns.ResourceVersion, func(v int64) error { _, err := c.DeleteNamespace(ctx, ns.ID, v); return err }},
	} {
		if err := deletion.do(deletion.version + 7); api.CodeOf(err) != api.PreconditionFailed {
			t.Errorf("%s at another version: %v", what, err)
		}
		if what == "a namespace" {
			continue // it would take the others with it
		}
		if err := deletion.do(deletion.version); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := c.DeleteNamespace(ctx, ns.ID, ns.ResourceVersion); err != nil {
		t.Error(err)
	}
}
