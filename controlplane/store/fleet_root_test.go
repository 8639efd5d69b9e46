package store

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet/certificate"
)

// newFleetRoot returns the op for a root. Equal names give equal roots.
func newFleetRoot(name string) *AddFleetRoot {
	root, err := certificate.NewRoot(time.Unix(0, epochNs), rand.NewChaCha8([32]byte(hash(name))))
	if err != nil {
		panic(err) // the randomness does not end
	}
	return &AddFleetRoot{Meta: by("op"), Fingerprint: root.Fingerprint(), Seed: root.Seed(), Certificate: root.DER()}
}

// TestTheFleetHasOneRoot adds a root, repeats it, and tries another one.
func TestTheFleetHasOneRoot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := newFleetRoot("first")
	w.ok(first)
	before := w.dump()
	w.ok(newFleetRoot("first"))
	if diff := difference(before, w.dump()); diff != "" {
		t.Errorf("added again: %s", diff)
	}
	w.refused(api.Conflict, newFleetRoot("second"))
	roots, err := w.store().FleetRoots(t.Context())
	if err != nil || len(roots) != 1 {
		t.Fatalf("the roots are %v, %v", roots, err)
	}
	got, err := certificate.OpenRoot(roots[0].Seed, roots[0].Certificate)
	if err != nil || got.Fingerprint() != first.Fingerprint {
		t.Errorf("the stored root is another one: %v", err)
	}
}

func TestFleetRootsThatAreRefused(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(o *AddFleetRoot){
		"no seed":                 func(o *AddFleetRoot) { o.Seed = nil },
		"a damaged certificate":   func(o *AddFleetRoot) { o.Certificate = o.Certificate[1:] },
		"another key":             func(o *AddFleetRoot) { o.Seed = hash("other") },
		"another root's SHA-256":  func(o *AddFleetRoot) { o.Fingerprint = newFleetRoot("other").Fingerprint },
		"an upper-case SHA-256":   func(o *AddFleetRoot) { o.Fingerprint = "A" + o.Fingerprint[1:] },
		"no certificate":          func(o *AddFleetRoot) { o.Certificate = nil },
		"a certificate and bytes": func(o *AddFleetRoot) { o.Certificate = append(o.Certificate, 0) },
	} {
		o := newFleetRoot("root")
		spoil(o)
		if err := o.Validate(); api.CodeOf(err) != api.ValidationError {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := newFleetRoot("root").Validate(); err != nil {
		t.Error(err)
	}
}
