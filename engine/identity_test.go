package engine_test

import (
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/entry"
)

// A new directory is founded with the given incarnation. Afterwards the directory opens only for that
// incarnation, or for any.
func TestAGroupIsFoundedWithTheGivenIncarnation(t *testing.T) {
	t.Parallel()
	given, other := entry.Incarnation{1, 2}, entry.Incarnation{3}
	of := func(i *entry.Incarnation) func(*engine.Config) {
		return func(c *engine.Config) { c.Incarnation = i }
	}
	dir := t.TempDir()
	for _, i := range []*entry.Incarnation{&given, &given, nil} {
		n := openNode(t, dir, of(i))
		if got := n.Applied().Incarnation; got != given {
			t.Errorf("the group has incarnation %v, want %v", got, given)
		}
		n.shut(t)
	}
	_, err := tryOpenNode(t, dir, of(&other))
	wantCode(t, err, api.Conflict)
	for _, part := range []string{dir, given.String(), other.String()} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the refusal %q does not say %q", err, part)
		}
	}
}

// A restored directory has an incarnation of its own before it is opened for the first time.
func TestARestoredDirectoryOpensOnlyForItsIncarnation(t *testing.T) {
	t.Parallel()
	dir, given := t.TempDir(), entry.Incarnation{1}
	if err := engine.InitRestored(dir, "test/0", entry.Incarnation{2}); err != nil {
		t.Fatal(err)
	}
	_, err := tryOpenNode(t, dir, func(c *engine.Config) { c.Incarnation = &given })
	wantCode(t, err, api.Conflict)
}
