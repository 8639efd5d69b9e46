package fleet_test

import (
	"context"
	"crypto/rand"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/fleet/fleettest"
	"github.com/corvo/corvo/tenancy/keyring"
)

// made generates a key, as a client and as documents know it.
func made(t *testing.T, kind keyring.Kind) (text string, key fleet.Key) {
	t.Helper()
	text, id, hash, err := keyring.New(rand.Reader, kind)
	if err != nil {
		t.Fatal(err)
	}
	return text, fleet.Key{ID: id, Name: "test", Roles: []string{"worker"}, Hash: hash[:]}
}

// following returns a gateway whose directory follows a control plane.
func following(t *testing.T) (*fleettest.ControlPlane, *fleet.Member, *fleet.Directory) {
	t.Helper()
	plane := fleettest.New(t)
	m, directory := member(t, plane, keyring.Gateway), fleet.NewDirectory()
	run(t, m, fleet.Follow{OnDoc: func(d fleet.Doc) error { directory.Put(d); return nil }})
	fleettest.Eventually(t, "the stream is open", m.Connected)
	return plane, m, directory
}

// A key works as soon as its creation was answered, even if its document has not come yet: a client that
// uses it at once needs no retry.
func TestAuthenticateWaitsForTheDocument(t *testing.T) {
	t.Parallel()
	plane, m, directory := following(t)
	text, key := made(t, keyring.Namespace)
	entered := make(chan error, 1)
	go func() {
		_, _, err := m.Authenticate(context.Background(), directory, text, "", func(d fleet.Doc) bool { return d.Ready })
		entered <- err
	}()
	plane.Put(fleet.Doc{Namespace: "ns_a", Name: "a", Org: "org", Desired: fleet.Open, Keys: []fleet.Key{key}})
	plane.Put(fleet.Doc{Namespace: "ns_a", Name: "a", Org: "org", Desired: fleet.Open, Keys: []fleet.Key{key}, Ready: true})
	if err := <-entered; err != nil {
		t.Errorf("the new key: %v", err)
	}
}

// asked is a context that records whether somebody waited on it.
type asked struct {
	context.Context
	done atomic.Bool
}

func (a *asked) Done() <-chan struct{} {
	a.done.Store(true)
	return a.Context.Done()
}

func TestAuthenticateRefusesUnknownKeys(t *testing.T) {
	t.Parallel()
	plane, m, directory := following(t)
	known, key := made(t, keyring.Namespace)
	plane.Put(fleet.Doc{Namespace: "ns_a", Name: "a", Org: "org", Desired: fleet.Open, Keys: []fleet.Key{key}, Ready: true})
	fleettest.Eventually(t, "the document", func() bool { _, ok := directory.Namespace("ns_a"); return ok })
	enter := func(text, hint string) (api.Code, bool) {
		t.Helper()
		ctx := &asked{Context: context.Background()}
		_, _, err := m.Authenticate(ctx, directory, text, hint, nil)
		return api.CodeOf(err), ctx.done.Load()
	}
	unknown, _ := made(t, keyring.Namespace)
	if code, waited := enter(unknown, ""); code != api.Unauthorized || !waited {
		t.Errorf("an unknown key: %q, waited for: %v", code, waited)
	}
	if code, waited := enter(unknown, ""); code != api.Unauthorized || waited {
		t.Errorf("an unknown key, again: %q, waited for: %v", code, waited)
	}
	forged := []byte(known)
	other, _ := made(t, keyring.Namespace)
	copy(forged[len(forged)-40:], other[len(other)-40:])
	for name, text := range map[string]string{"no key": "x", "a forged key": string(forged)} {
		if code, waited := enter(text, ""); code != api.Unauthorized || waited {
			t.Errorf("%s: %q, waited for: %v", name, code, waited)
		}
	}
	// A revoked key is refused without a wait.
	plane.Put(fleet.Doc{Namespace: "ns_a", Name: "a", Org: "org", Desired: fleet.Open, Ready: true})
	fleettest.Eventually(t, "the revocation", func() bool {
		_, _, err := directory.Authenticate(known, "", time.Now())
		return api.CodeOf(err) == api.Unauthorized
	})
	if code, waited := enter(known, ""); code != api.Unauthorized || waited {
		t.Errorf("a revoked key: %q, waited for: %v", code, waited)
	}
	// While the control plane is down no document can come, so the result stays unknown.
	plane.SetDown(true)
	fleettest.Eventually(t, "the stream ends", func() bool { return !m.Connected() })
	late, _ := made(t, keyring.Namespace)
	if code, waited := enter(late, ""); code != api.LeaderUnavailable || waited {
		t.Errorf("an unknown key without the control plane: %q, waited for: %v", code, waited)
	}
	_, _, err := m.Authenticate(t.Context(), directory, late, "", nil)
	var e *api.Error
	if !errors.As(err, &e) || e.RetryAfter <= 0 {
		t.Errorf("it does not say when to try again: %v", err)
	}
	if code, _ := enter(known, ""); code != api.Unauthorized {
		t.Errorf("a revoked key without the control plane: %q", code)
	}
}
