package op_test

import (
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// Commands of stories about providers and gates.
func init() {
	builders["provider"] = (*story).provider
	builders["unprovide"] = func(s *story, items []item) op.Op {
		return &op.DeleteResource{Meta: s.meta(items[0]), Kind: state.ResourceKind_RESOURCE_KIND_PROVIDER, Name: items[0].words[0], Shards: 1}
	}
	builders["enqueue-for"] = (*story).enqueueFor
	builders["open-gate"] = func(s *story, items []item) op.Op { return &op.OpenGate{JobIds: s.jobIDs(items[0])} }
	builders["set-provider"] = func(s *story, items []item) op.Op {
		name := items[0].text("provider", "")
		return &op.SetQueue{Meta: s.meta(items[0]), Queue: items[0].words[0], Provider: &name}
	}
	moreValid = append(moreValid, func(w *world) op.Op {
		id := w.newID("q")
		return &op.OpenGate{JobIds: [][]byte{id[:]}}
	})
	prepare["open-gate"] = func(w *world) op.Op {
		w.apply(w.putProvider("p", &state.Provider{Requests: 1}))
		o := w.jobsFor("p", "q", 3)
		w.apply(o)
		w.apply(w.fetch("q", 3))
		w.apply(w.putProvider("p", &state.Provider{}))
		return &op.OpenGate{JobIds: o.Meta.Ids}
	}
}

// putProvider declares a provider.
func (w *world) putProvider(name string, p *state.Provider) *op.PutResource {
	id := w.newID("")
	return &op.PutResource{
		Meta:     &op.Meta{Ids: [][]byte{id[:]}},
		Resource: &state.Resource{Kind: state.ResourceKind_RESOURCE_KIND_PROVIDER, Name: name, Shards: 1, Provider: p},
	}
}

// jobsFor builds an enqueue of n jobs that name a provider.
func (w *world) jobsFor(provider, queue string, n int) *op.Enqueue {
	o := w.newJobs(queue, n)
	for _, nj := range o.Jobs {
		nj.Opt().Provider = provider
	}
	return o
}

// provider declares a provider with the limits rpm=, in= and out=.
func (s *story) provider(items []item) op.Op {
	i := items[0]
	o := s.putProvider(repeated(i.words[0]), &state.Provider{
		Requests: i.number(s.t, "rpm", 0), InputTokens: i.number(s.t, "in", 0), OutputTokens: i.number(s.t, "out", 0),
	})
	o.Resource.Shards = uint32(i.number(s.t, "shards", 1))
	return o
}

// enqueueFor builds an enqueue of jobs that name a provider, the first word.
func (s *story) enqueueFor(items []item) op.Op {
	provider := items[0].words[0]
	items[0].words = items[0].words[1:]
	o := s.enqueue(items).(*op.Enqueue)
	for _, nj := range o.Jobs {
		nj.Opt().Provider = provider
	}
	return o
}

// printGates prints the jobs that wait at each gate.
func (s *story) printGates() {
	gates := s.store.Gates()
	if len(gates) == 0 {
		s.out.WriteString("gates: none\n")
	}
	s.snapshot(func(v *state.Snapshot) {
		for _, g := range gates {
			ids, err := v.AtGate(g.Kind, g.Name, 10)
			if err != nil {
				s.t.Fatal(err)
			}
			fmt.Fprintf(&s.out, "gate of %s: %d jobs:", g.Name, g.Jobs)
			for _, id := range ids {
				j, err := v.Job(id)
				if err != nil {
					s.t.Fatal(err)
				}
				fmt.Fprintf(&s.out, " %s", s.name(j.Id))
			}
			s.out.WriteString("\n")
		}
	})
}

// printTraffic prints the traffic of providers.
func (s *story) printTraffic() {
	for _, r := range s.store.ResourceIndex().Resources(state.ResourceKind_RESOURCE_KIND_PROVIDER) {
		t, err := s.store.Traffic([16]byte(r.Id))
		if err != nil {
			s.t.Fatal(err)
		}
		taken := func(w *job.RateWindow) uint64 { return w.Taken(60_000, s.clockNs) }
		fmt.Fprintf(&s.out, "traffic of %s: requests %d; in %d, reserved %d, expected %d; out %d, reserved %d, expected %d\n", r.Name, taken(t.GetRequests()),
			taken(t.GetInputTokens()), t.GetReservedInputTokens(), t.GetExpectedInputTokens(),
			taken(t.GetOutputTokens()), t.GetReservedOutputTokens(), t.GetExpectedOutputTokens())
	}
}
