package reconcile

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/engine/entry"
)

// settled returns a store with an active namespace, and a reconciler with its log.
func settled(t *testing.T) (*store.Store, *Reconciler, *logged) {
	t.Helper()
	s, _ := openStore(t)
	populate(t, s)
	log := &logged{}
	r := New(Config{Store: s, Observations: NewObservations(time.Now, HostGrace), Now: time.Now, Logger: slog.New(slog.NewTextHandler(log, nil))})
	meta := &store.Meta{Principal: "test"}
	propose(t, s, &store.PlaceNamespace{Meta: meta, Id: "ns_1", Generation: 1, Stores: []string{storeID}})
	r.report(t, opened(t, s, minted))
	r.report(t, opened(t, s, minted))
	if ns := namespace(t, s); ns.Phase != fleet.Active || !ns.Founded {
		t.Fatalf("the namespace: %+v", ns)
	}
	return s, r, log
}

// report takes a report of host_1 and runs a pass.
func (r *Reconciler) report(t *testing.T, of wire.Report) {
	t.Helper()
	observeFull(t, r.cfg.Observations, leading(t, r.cfg.Store), "host_1", of)
	r.pass(t.Context(), leading(t, r.cfg.Store))
}

func namespace(t *testing.T, s *store.Store) fleet.Namespace {
	t.Helper()
	ns, err := s.Namespace(t.Context(), "", "ns_1")
	if err != nil {
		t.Fatal(err)
	}
	return ns
}

// A report of other incarnations than the recorded ones is logged once and counted, and changes nothing. The count
// ends when the host reports the recorded ones again, and with the term.
func TestOtherIncarnationsAreAnAlarm(t *testing.T) {
	t.Parallel()
	s, r, log := settled(t)
	was := namespace(t, s)
	foreign := opened(t, s, []entry.Incarnation{{9}})
	r.report(t, foreign)
	r.report(t, foreign)
	if text := log.String(); strings.Count(text, "level=ERROR") != 1 || !strings.Contains(text, "host_1") || !strings.Contains(text, entry.Incarnation{9}.String()) {
		t.Errorf("the log is\n%s", text)
	}
	if now := namespace(t, s); r.Foreign() != 1 || !slices.Equal(now.Incarnations, minted) || now.DocNumber != was.DocNumber {
		t.Errorf("%d are counted, and the namespace is %+v", r.Foreign(), now)
	}
	r.report(t, opened(t, s, minted))
	if r.Foreign() != 0 {
		t.Errorf("%d are counted after the host was right again", r.Foreign())
	}
	r.report(t, foreign)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_ = r.lead(gone, leading(t, s))
	if r.Foreign() != 0 {
		t.Errorf("%d are counted after the term", r.Foreign())
	}
}

// A namespace without an operation is looked at once after each new report, and again after a failure.
func TestNewReportsAreLookedAt(t *testing.T) {
	t.Parallel()
	s, r, _ := settled(t)
	look := func(when string, want int) {
		t.Helper()
		work, err := r.addReported(t.Context(), nil)
		if err != nil || len(work) != want {
			t.Errorf("%s the work is %+v, %v", when, work, err)
		}
	}
	look("after the passes", 0)
	observeFull(t, r.cfg.Observations, leading(t, s), "host_1", wire.Report{})
	look("without a report on it", 0)
	observeFull(t, r.cfg.Observations, leading(t, s), "host_1", opened(t, s, minted))
	look("after a report", 1)
	observeFull(t, r.cfg.Observations, leading(t, s), "host_1", opened(t, s, minted))
	look("after the same report", 0)
	r.lookAgain(namespace(t, s))
	look("after a failure", 1)
	stray := opened(t, s, minted)
	stray.Cells[0].Namespace = "ns_unknown"
	observeFull(t, r.cfg.Observations, leading(t, s), "host_1", stray)
	look("after a report on an unknown one", 0)
}

// A pass with nothing to do reads no hosts and changes nothing, because most passes are so.
func TestQuietPasses(t *testing.T) {
	t.Parallel()
	s, r, _ := settled(t)
	r.report(t, opened(t, s, minted))
	was, known := namespace(t, s), r.known.until
	for range 3 {
		r.report(t, opened(t, s, minted))
	}
	if now := namespace(t, s); now.DocNumber != was.DocNumber || r.known.until != known || r.Waiting("ns_1") != "" {
		t.Errorf("the namespace is %+v, was %+v, and waits for %q; the hosts were read again: %v", now, was, r.Waiting("ns_1"), r.known.until != known)
	}
	propose(t, s, &store.DrainHost{Meta: &store.Meta{Principal: "test"}, Id: "host_1"})
	r.report(t, opened(t, s, minted))
	if got := r.Waiting("ns_1"); r.known.until == known || !strings.Contains(got, "host h1 (host_1), which drains: no further host in region eu reports") {
		t.Errorf("after its host drains the namespace waits for %q", got)
	}
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
