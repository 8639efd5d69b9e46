package op_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/entry"
)

const kindProvider = state.ResourceKind_RESOURCE_KIND_PROVIDER

func init() {
	builders["put-resource"] = (*story).putResource
	builders["delete-resource"] = func(s *story, items []item) op.Op {
		i := items[0]
		return &op.DeleteResource{
			Meta: s.meta(i), Kind: state.ResourceKind(i.number(s.t, "kind", uint64(kindProvider))), Name: repeated(i.words[0]),
			IfVersion: i.number(s.t, "if", 0), Shards: uint32(i.number(s.t, "shards", 1)), Sent: i.has("sent"),
		}
	}
	moreValid = append(moreValid,
		func(w *world) op.Op { return w.newProvider("p", 1) },
		func(*world) op.Op { return &op.DeleteResource{Kind: kindProvider, Name: "p", Shards: 1} },
	)
}

// newProvider declares a provider for a namespace of so many shards.
func (w *world) newProvider(name string, shards uint32) *op.PutResource {
	id := w.newID("")
	return &op.PutResource{Meta: &op.Meta{Ids: [][]byte{id[:]}}, Resource: &state.Resource{
		Kind: kindProvider, Name: name, Shards: shards, Provider: &state.Provider{Requests: 50},
	}}
}

// putResource reads a provider's name, rpm=, if=, shards= and as= (the name of its id).
func (s *story) putResource(items []item) op.Op {
	i := items[0]
	o := &op.PutResource{
		Meta: s.meta(i), Create: i.has("create"), IfVersion: i.number(s.t, "if", 0), Sent: i.has("sent"),
		Resource: &state.Resource{
			Kind: state.ResourceKind(i.number(s.t, "kind", uint64(kindProvider))), Name: repeated(i.words[0]), Shards: uint32(i.number(s.t, "shards", 1)),
			Provider: &state.Provider{Requests: i.number(s.t, "rpm", 50)},
		},
	}
	id := s.proof(item{words: []string{i.text("id", i.words[0])}}).Id
	if o.Sent {
		o.Resource.Id, o.Resource.Version, o.Resource.CreatedNs = id, i.number(s.t, "version", 1), s.clockNs
	} else if !i.has("no-id") {
		o.Meta.Ids = [][]byte{id}
	}
	if i.has("price-too") {
		o.Resource.Price = &state.Price{Model: "m"}
	}
	return o
}

func (s *story) printResources() {
	for kind := range state.ResourceKind(len(state.ResourceKind_name)) {
		for _, r := range s.store.ResourceIndex().Resources(kind) {
			fmt.Fprintf(&s.out, "%s %q: id %s, version %d, created %s, rpm %d\n", strings.ToLower(strings.TrimPrefix(r.Kind.String(), "RESOURCE_KIND_")), r.Name,
				s.name(r.Id), r.Version, s.moment(r.CreatedNs), r.Provider.GetRequests())
		}
	}
}

// declared returns a shard's providers as text.
func (s *shard) declared() (all string) {
	for _, r := range s.store.ResourceIndex().Resources(kindProvider) {
		all += fmt.Sprintln(r.Name, job.ID(r.Id), r.Version, r.CreatedNs, r.Provider.Requests)
	}
	return all
}

// All shards apply the first shard's decisions in its order, even if deliveries come late and repeatedly. The
// records that belong to a resource are removed with it on every shard.
func TestResourcesTravel(t *testing.T) {
	t.Parallel()
	shards := newShards(t, 3)
	w := &world{t: t, clockNs: epochNs}
	home := shards[0]
	home.must(w.newProvider("a", 3))
	home.must(w.newProvider("b", 3))
	deliver := func(from uint64) {
		for _, to := range shards[1:] {
			home.deliver(to, from, 100)
			if got, want := to.declared(), home.declared(); got != want {
				t.Errorf("shard %d has\n%sthe first\n%s", to.number, got, want)
			}
		}
	}
	deliver(1)
	b := shards[2].store.ResourceIndex().Resource(kindProvider, "b")
	traffic(shards[2], b.Id)
	if got, err := shards[2].store.Traffic([16]byte(b.Id)); got == nil || err != nil {
		t.Fatalf("the traffic is %v: %v", got, err)
	}
	again := w.newProvider("a", 3)
	again.Resource.Provider.Requests, again.IfVersion = 60, 1
	home.must(again)
	home.must(&op.DeleteResource{Kind: kindProvider, Name: "b", Shards: 3})
	home.must(w.newProvider("b", 3)) // another
	if _, err := home.apply(again); api.CodeOf(err) != api.PreconditionFailed {
		t.Errorf("a version that was replaced: %v", err)
	}
	deliver(1) // everything once more, and the new ops
	if got, err := shards[2].store.Traffic([16]byte(b.Id)); got != nil || err != nil {
		t.Errorf("of a provider that is gone there is %v: %v", got, err)
	}
	for _, s := range shards {
		if now := s.store.ResourceIndex().Resource(kindProvider, "b"); now.Version != 1 || string(now.Id) == string(b.Id) {
			t.Errorf("shard %d has %v", s.number, now)
		}
	}
}

// traffic stores traffic of a provider, as a fetch does.
func traffic(s *shard, id []byte) {
	head := s.store.Head()
	at := entry.Applied{Group: fmt.Sprintf("ns/%d", s.number), Incarnation: s.incarnation(), Index: head.Index + 1, Term: 1}
	tx := s.store.Begin(at, entry.Header{Incarnation: s.incarnation(), ClockNs: head.ClockNs + 1})
	err := tx.PutTraffic([16]byte(id), &state.Traffic{Name: "b"})
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// A restored first shard does not know the resources that it declared after the backup. A new declaration under
// the same name replaces such a resource and its records on the other shards.
func TestAResourceOfAnotherHistory(t *testing.T) {
	t.Parallel()
	other := newShards(t, 2)[1]
	w := &world{t: t, clockNs: epochNs}
	sent := func() *op.PutResource {
		o := w.newProvider("p", 2)
		o.Resource.Id, o.Resource.Version, o.Resource.CreatedNs = o.Meta.Ids[0], 1, w.clockNs
		o.Meta, o.Sent = nil, true
		return o
	}
	before, after := sent(), sent()
	other.must(before)
	traffic(other, before.Resource.Id)
	other.must(after)
	if got, err := other.store.Traffic([16]byte(before.Resource.Id)); got != nil || err != nil {
		t.Errorf("of the one before there is %v: %v", got, err)
	}
	resources := other.store.ResourceIndex()
	if resources.ResourceByID([16]byte(before.Resource.Id)) != nil || resources.ResourceByID([16]byte(after.Resource.Id)) == nil {
		t.Errorf("the shard has\n%s", other.declared())
	}
}

// The number of resources of a kind is limited. At the limit, a resource can still be replaced.
func TestTooManyResources(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var all []op.Op
	for i := range job.MaxProviders {
		all = append(all, w.newProvider(fmt.Sprint("p", i), 1))
	}
	for i, result := range w.apply(all...) {
		if err, refused := result.(error); refused {
			t.Fatalf("provider %d: %v", i, err)
		}
	}
	w.refused(w.newProvider("more", 1), api.Conflict, "at their maximum (100)")
	one[*op.PutResourceResult](w, w.newProvider("p1", 1))
	one[*op.DeleteResourceResult](w, &op.DeleteResource{Kind: kindProvider, Name: "p1", Shards: 1})
	one[*op.PutResourceResult](w, w.newProvider("more", 1))
}

// An unreachable shard keeps resources from changing, so its outbox does not grow without bound.
func TestResourcesWaitForRoom(t *testing.T) {
	t.Parallel()
	shards := newShards(t, 2)
	w := &world{t: t, clockNs: epochNs}
	home := shards[0]
	const step = 500
	for range state.MaxOutboxOps / step {
		ops := make([]op.Op, step)
		for i := range ops {
			ops[i] = w.newProvider("p", 2)
		}
		for _, result := range home.entry(ops...) {
			if err, refused := result.(error); refused {
				t.Fatal(err)
			}
		}
	}
	before := home.declared()
	remove := &op.DeleteResource{Kind: kindProvider, Name: "p", Shards: 2}
	for _, o := range []op.Op{w.newProvider("p", 2), w.newProvider("q", 2), remove} {
		_, err := home.apply(o)
		if refusal, ok := err.(*api.Error); !ok || refusal.Code != api.Overloaded || refusal.RetryAfter == 0 {
			t.Errorf("%T was answered %v", o, err)
		}
	}
	if after := home.declared(); after != before {
		t.Errorf("a refused op changed\n%sinto\n%s", before, after)
	}
	home.must(&op.TrimOutbox{Shard: 1, UpTo: 1})
	home.must(remove)
}
