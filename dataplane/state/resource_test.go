package state

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"google.golang.org/protobuf/proto"
)

// theResource returns a limit rule or a provider, depending on its name.
func theResource(kind ResourceKind, name string, id int, version uint64) *Resource {
	of := idOf(id)
	r := &Resource{Kind: kind, Name: name, Id: of[:], Version: version, Shards: 1}
	if queue, key, ok := strings.Cut(name, "/"); ok {
		r.LimitRule = &LimitRule{Queue: queue, Key: key, MaxConcurrency: uint32(version)}
	} else {
		r.Provider = &Provider{Requests: version}
	}
	return r
}

const (
	kindRule     = ResourceKind_RESOURCE_KIND_LIMIT_RULE
	kindProvider = ResourceKind_RESOURCE_KIND_PROVIDER
)

// shownResources lists the resources of an index.
func shownResources(b *ResourceIndex) (all []string) {
	for kind := range ResourceKind(len(ResourceKind_name)) {
		for _, r := range b.Resources(kind) {
			all = append(all, fmt.Sprint(r.Name, " ", r.Version))
			if b.Resource(kind, r.Name) != r || b.ResourceByID([16]byte(r.Id)) != r {
				all = append(all, "which it does not find")
			}
		}
	}
	return all
}

// The entry, readers, a snapshot and a reopened store see the same resources.
func TestResources(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	s := open(t, fs)
	told := 0
	s.SetHooks(Hooks{OnResources: func() { told++ }})
	same := func(want ...string) {
		t.Helper()
		check(t, s)
		v := s.Snapshot()
		defer v.Close()
		resources, err := v.ResourceIndex()
		must(t, err)
		for where, got := range map[string]*ResourceIndex{"the store": s.ResourceIndex(), "a snapshot": resources} {
			if !slices.Equal(shownResources(got), want) {
				t.Errorf("%s has %q, want %q", where, shownResources(got), want)
			}
		}
	}
	reopen := func() {
		t.Helper()
		must(t, s.Close())
		s = open(t, fs)
		s.SetHooks(Hooks{OnResources: func() { told++ }})
	}
	same()
	update(t, s, func(tx *Tx) {
		before := tx.ResourceIndex()
		must(t, tx.PutResource(theResource(kindProvider, "p", 1, 1)))
		mine := theResource(kindRule, "q/b", 2, 1)
		must(t, tx.PutResource(mine))
		mine.LimitRule.MaxConcurrency = 99 // the store keeps a copy of its own
		must(t, tx.PutResource(theResource(kindRule, "q/*", 3, 1)))
		if len(shownResources(before)) != 0 || len(shownResources(s.ResourceIndex())) != 0 {
			t.Error("an index that was read has changed")
		}
		if got := tx.ResourceIndex().RuleFor("q", "b"); got.GetMaxConcurrency() != 1 {
			t.Errorf("the rule is %v", got)
		}
		if tx.Resource(kindRule, "q/b") == nil || tx.Resource(kindProvider, "q/b") != nil || tx.CountResources(kindRule) != 2 {
			t.Error("the entry does not see what it has done")
		}
	})
	want := []string{"q/* 1", "q/b 1", "p 1"}
	same(want...)
	reopen()
	same(want...)
	resources := s.ResourceIndex()
	for key, limit := range map[string]uint32{"b": 1, "other": 1, "": 0} {
		if got := resources.RuleFor("q", key).GetMaxConcurrency(); got != limit {
			t.Errorf("the rule of key %q allows %d", key, got)
		}
	}
	if resources.RuleFor("r", "b") != nil || !resources.Governs() {
		t.Error("rules of one queue are those of another, or nothing governs")
	}
	update(t, s, func(tx *Tx) {
		must(t, tx.PutResource(theResource(kindRule, "q/b", 2, 2)))
		must(t, tx.DeleteResource(kindProvider, "p"))
		must(t, tx.DeleteResource(kindProvider, "nobody"))
	})
	same("q/* 1", "q/b 2")
	if resources.RuleFor("q", "b").GetMaxConcurrency() != 1 || s.ResourceIndex().Governs() {
		t.Error("an index that was read has changed, or the new one has not")
	}
	reopen()
	same("q/* 1", "q/b 2")
	if told != 2 {
		t.Errorf("it was told %d times that there are others", told)
	}
	update(t, s, func(*Tx) {})
	if told != 2 {
		t.Error("an entry that changed none told that there are others")
	}
	must(t, s.Close())
}

// A restored store has the resources of the other store, and none of its own.
func TestResourcesAreRestored(t *testing.T) {
	t.Parallel()
	s, other := open(t, vfs.NewMem()), open(t, vfs.NewMem())
	update(t, s, func(tx *Tx) { must(t, tx.PutResource(theResource(kindRule, "q/b", 2, 2))) })
	update(t, other, func(tx *Tx) { must(t, tx.PutResource(theResource(kindProvider, "elsewhere", 9, 1))) })
	image, err := s.Image()
	must(t, err)
	must(t, other.Restore(image))
	must(t, image.Close())
	if got, want := shownResources(other.ResourceIndex()), shownResources(s.ResourceIndex()); !slices.Equal(got, want) {
		t.Errorf("a store that was restored has %q, want %q", got, want)
	}
	must(t, other.Close())
	must(t, s.Close())
}

// If a resource takes a name with another id, the feed reports that the earlier one has gone.
func TestAResourceOfAnotherID(t *testing.T) {
	t.Parallel()
	s := openClosing(t)
	update(t, s, func(tx *Tx) { must(t, tx.PutResource(theResource(kindProvider, "p", 1, 1))) })
	update(t, s, func(tx *Tx) { must(t, tx.PutResource(theResource(kindProvider, "p", 1, 2))) })
	update(t, s, func(tx *Tx) { must(t, tx.PutResource(theResource(kindProvider, "p", 2, 1))) })
	v := s.Snapshot()
	defer v.Close()
	var events []string
	for item, err := range v.Feed(1) {
		must(t, err)
		for _, e := range item.Entry.Events {
			events = append(events, fmt.Sprint(e.Type, " ", e.RecordId[15], " ", e.JobNumber, e.Queue))
		}
	}
	want := []string{"EVENT_RESOURCE_CHANGED 1 0", "EVENT_RESOURCE_CHANGED 1 0", "EVENT_RESOURCE_DELETED 1 0", "EVENT_RESOURCE_CHANGED 2 0"}
	if !slices.Equal(events, want) {
		t.Errorf("the feed tells %q", events)
	}
	if s.ResourceIndex().ResourceByID(idOf(1)) != nil || s.ResourceIndex().ResourceByID(idOf(2)) == nil {
		t.Error("the index has the wrong one")
	}
}

// TestNoResources reads a nil and an empty index. Neither holds a resource or governs anything.
func TestNoResources(t *testing.T) {
	t.Parallel()
	for _, b := range []*ResourceIndex{nil, {}, newResourceIndex(nil)} {
		for of, r := range map[string]*Resource{
			"id":     b.ResourceByID([16]byte{}),
			"name":   b.Resource(kindRule, "q/k"),
			"budget": b.BudgetFor(BudgetScope_BUDGET_SCOPE_QUEUE, "q"),
		} {
			if r != nil {
				t.Errorf("%+v has a resource by %s: %v", b, of, r)
			}
		}
		if all := b.Resources(kindRule); all != nil || b.RuleFor("q", "k") != nil {
			t.Errorf("%+v has the rules %v, %v", b, all, b.RuleFor("q", "k"))
		}
		if b.Governs() {
			t.Errorf("%+v governs", b)
		}
	}
}

func TestImpossibleResources(t *testing.T) {
	t.Parallel()
	for says, change := range map[string]func(r *Resource){
		"no kind":     func(r *Resource) { r.Kind = 0 },
		"no name":     func(r *Resource) { r.Name = "" },
		"has 3 bytes": func(r *Resource) { r.Id = r.Id[:3] },
	} {
		s := open(t, vfs.NewMem())
		tx := begin(s)
		r := theResource(kindProvider, "p", 1, 1)
		change(r)
		if err := tx.PutResource(r); err == nil || !strings.Contains(err.Error(), says) || tx.Commit() == nil {
			t.Errorf("%s: %v", says, err)
		}
		must(t, s.Close())
	}
}

// Check finds resources that lie under another's key or have another's id.
func TestCheckResources(t *testing.T) {
	t.Parallel()
	for says, spoil := range map[string]func(b *pebble.Batch, r *Resource) error{
		"lies under key": func(b *pebble.Batch, r *Resource) error {
			return put(b, appendResourceKey(nil, kindProvider, "other"), r)
		},
		"have the id": func(b *pebble.Batch, r *Resource) error {
			r.Name = "other"
			return put(b, appendResourceKey(nil, kindProvider, "other"), r)
		},
		"has 2 bytes": func(b *pebble.Batch, r *Resource) error {
			r.Id = r.Id[:2]
			return put(b, appendResourceKey(nil, kindProvider, "p"), r)
		},
	} {
		s := open(t, vfs.NewMem())
		update(t, s, func(tx *Tx) { must(t, tx.PutResource(theResource(kindProvider, "p", 1, 1))) })
		b := s.gen.db.NewBatch()
		must(t, spoil(b, proto.Clone(theResource(kindProvider, "p", 1, 1)).(*Resource)))
		must(t, b.Commit(pebble.NoSync))
		v := s.Snapshot()
		if err := v.Check(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
		must(t, v.Close())
		must(t, s.Close())
	}
}
