package fleet_test

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/fleet/fleettest"
	"github.com/corvo/corvo/tenancy/keyring"
)

// made is a key of a namespace as its maker and as documents know it.
func made(t *testing.T, kind keyring.Kind) (text string, key fleet.Key) {
	t.Helper()
	text, id, hash, err := keyring.New(rand.Reader, kind)
	if err != nil {
		t.Fatal(err)
	}
	return text, fleet.Key{ID: id, Name: "test", Roles: []string{"worker"}, Hash: hash[:]}
}

// following is a gateway whose book follows a control plane.
func following(t *testing.T) (*fleettest.ControlPlane, *fleet.Member, *fleet.Book) {
	t.Helper()
	plane := fleettest.New(t)
	m, book := member(t, plane, keyring.Gateway), fleet.NewBook()
	run(t, m, fleet.Follow{OnDoc: func(d fleet.Doc) error { book.Put(d); return nil }})
	fleettest.Eventually(t, "the stream is open", m.Connected)
	return plane, m, book
}

// A key that its maker was told of opens the door, however far behind its document
// is: whoever uses it at once needs no retry.
func TestEnterWaitsForWhatIsOnItsWay(t *testing.T) {
	t.Parallel()
	plane, m, book := following(t)
	text, key := made(t, keyring.Namespace)
	entered := make(chan error, 1)
	go func() {
		_, _, err := m.Enter(context.Background(), book, text, "", func(d fleet.Doc) bool { return d.Ready })
		entered <- err
	}()
	plane.Put(fleet.Doc{Namespace: "ns_a", Name: "a", Org: "org", Desired: fleet.Open, Keys: []fleet.Key{key}})
	plane.Put(fleet.Doc{Namespace: "ns_a", Name: "a", Org: "org", Desired: fleet.Open, Keys: []fleet.Key{key}, Ready: true})
	if err := <-entered; err != nil {
		t.Errorf("the new key: %v", err)
	}
}

// asked is a context that knows whether somebody has waited with it.
type asked struct {
	context.Context
	done atomic.Bool
}

func (a *asked) Done() <-chan struct{} {
	a.done.Store(true)
	return a.Context.Done()
}

func TestEnterRefusesWhatNobodyKnows(t *testing.T) {
	t.Parallel()
	plane, m, book := following(t)
	known, key := made(t, keyring.Namespace)
	plane.Put(fleet.Doc{Namespace: "ns_a", Name: "a", Org: "org", Desired: fleet.Open, Keys: []fleet.Key{key}, Ready: true})
	fleettest.Eventually(t, "the document", func() bool { _, ok := book.Namespace("ns_a"); return ok })
	enter := func(text, hint string) (api.Code, bool) {
		t.Helper()
		ctx := &asked{Context: context.Background()}
		_, _, err := m.Enter(ctx, book, text, hint, nil)
		return api.CodeOf(err), ctx.done.Load()
	}
	stranger, _ := made(t, keyring.Namespace)
	if code, waited := enter(stranger, ""); code != api.Unauthorized || !waited {
		t.Errorf("an unknown key: %q, waited for: %v", code, waited)
	}
	if code, waited := enter(stranger, ""); code != api.Unauthorized || waited {
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
	// One that is revoked is refused without a wait.
	plane.Put(fleet.Doc{Namespace: "ns_a", Name: "a", Org: "org", Desired: fleet.Open, Ready: true})
	fleettest.Eventually(t, "the revocation", func() bool {
		d, _ := book.Namespace("ns_a")
		return !slices.ContainsFunc(d.Keys, func(k fleet.Key) bool { return k.ID == key.ID })
	})
	if code, waited := enter(known, ""); code != api.Unauthorized || waited {
		t.Errorf("a revoked key: %q, waited for: %v", code, waited)
	}
	// Nobody can bring news while the control plane is away, so nobody knows.
	plane.SetDown(true)
	fleettest.Eventually(t, "the stream ends", func() bool { return !m.Connected() })
	late, _ := made(t, keyring.Namespace)
	if code, waited := enter(late, ""); code != api.LeaderUnavailable || waited {
		t.Errorf("an unknown key without the control plane: %q, waited for: %v", code, waited)
	}
	_, _, err := m.Enter(t.Context(), book, late, "", nil)
	var e *api.Error
	if !errors.As(err, &e) || e.RetryAfter <= 0 {
		t.Errorf("it does not say when to try again: %v", err)
	}
	if code, _ := enter(known, ""); code != api.Unauthorized {
		t.Errorf("a revoked key without the control plane: %q", code)
	}
}
