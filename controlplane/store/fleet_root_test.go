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

// reports returns the join of a host with a certificate.
func reports(host, issuer string, trusted ...string) *JoinHost {
	o := start(host, host)
	o.Issuer, o.Roots = issuer, trusted
	return o
}

func rotation(name string, announce time.Duration) *RotateFleetRoot {
	root := newFleetRoot(name)
	return &RotateFleetRoot{Meta: by("op"), Fingerprint: root.Fingerprint, Seed: root.Seed, Certificate: root.Certificate, AnnounceNs: announce.Nanoseconds()}
}

func switchTo(root string, now bool, without ...string) *SwitchFleetRoot {
	return &SwitchFleetRoot{Meta: by("op"), Fingerprint: newFleetRoot(root).Fingerprint, Now: now, Without: without}
}

func retirement(root string) *RetireFleetRoot {
	return &RetireFleetRoot{Meta: by("op"), Fingerprint: newFleetRoot(root).Fingerprint}
}

// TestRotationOfTheRoot takes a fleet of two hosts from one root to the next. Every step is refused before its condition
// holds, and repeats of a step change nothing.
func TestRotationOfTheRoot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, second := newFleetRoot("first").Fingerprint, newFleetRoot("second").Fingerprint
	w.refused(api.StateConflict, rotation("second", 0))
	w.ok(newFleetRoot("first"), newHost("h1"), newHost("h2"), newHost("new"), reports("h1", first, first), reports("h2", first, first))
	w.refused(api.NotFound, switchTo("second", true))
	w.refused(api.StateConflict, retirement("first"))
	w.ok(rotation("second", time.Hour))
	repeats := func(o op) {
		t.Helper()
		before := w.dump()
		w.ok(o)
		if diff := difference(before, w.dump()); diff != "" {
			t.Errorf("a repeat of %T: %s", o, diff)
		}
	}
	repeats(rotation("third", 0))
	w.refused(api.StateConflict, retirement("first"))
	w.ok(reports("h1", first, first, second))
	w.clockNs += time.Hour.Nanoseconds() - 1
	w.refused(api.StateConflict, switchTo("second", false))
	w.clockNs++
	w.refused(api.StateConflict, switchTo("second", false)) // h2 does not trust it
	w.refused(api.StateConflict, switchTo("second", true, "host_h1"))
	w.ok(reports("h2", first, first, second), switchTo("second", false))
	repeats(switchTo("second", false))
	w.refused(api.StateConflict, rotation("third", 0))
	w.refused(api.StateConflict, retirement("second"))
	w.refused(api.StateConflict, switchTo("first", true))
	w.ok(reports("h1", second, first, second))
	w.refused(api.StateConflict, retirement("first")) // h2 has its certificate
	w.ok(reports("h2", second, first, second), retirement("first"))
	w.refused(api.NotFound, retirement("first"))
	roots, err := w.store().FleetRoots(t.Context())
	if err != nil || len(roots) != 1 || roots[0].Fingerprint != second || roots[0].SignsNs == 0 {
		t.Errorf("at the end the roots are %+v, %v", roots, err)
	}
	w.ok(rotation("third", 0), retirement("third")) // an announced root goes at any time
}

// TestARotationGoesOnWithoutAMember lets an operator name a host that is away. Its certificate keeps the old root until
// it has expired, or the host is removed.
func TestARotationGoesOnWithoutAMember(t *testing.T) {
	t.Parallel()
	first := newFleetRoot("first").Fingerprint
	for name, end := range map[string]func(w *world){
		"the host is removed":   func(w *world) { w.ok(dropHost("h1")) },
		"certificates expire":   func(w *world) { w.clockNs += RootUse.Nanoseconds() },
		"the host is insecure":  func(w *world) { w.ok(start("h1", "h1")) },
		"it has joined at last": func(w *world) { w.ok(reports("h1", newFleetRoot("second").Fingerprint, first)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.ok(newFleetRoot("first"), newHost("h1"), reports("h1", first, first), rotation("second", time.Hour), switchTo("second", true, "host_h1"))
			w.clockNs += RootUse.Nanoseconds() - 2
			w.refused(api.StateConflict, retirement("first"))
			end(w)
			w.ok(retirement("first"))
		})
	}
}
