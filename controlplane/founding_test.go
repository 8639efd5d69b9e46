package controlplane

import (
	"database/sql"
	"errors"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/corvo/corvo/api"
	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/tenancy/keyring"
)

// stored returns a namespace from the control plane's state.
func (p *plane) stored(id string) fleet.Namespace {
	p.t.Helper()
	ns, err := p.store.Namespace(p.t.Context(), "", id)
	if err != nil {
		p.t.Fatal(err)
	}
	return ns
}

// foundedBefore makes a namespace one that an earlier version of the host has founded, with incarnations of its own, and
// takes the minted ones out of its document.
func (h *host) foundedBefore(namespace string, own []entry.Incarnation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.histories[namespace] = own
	d := h.docs[namespace]
	d.Incarnations = nil
	h.docs[namespace] = d
	h.nudge()
}

// A directory of an earlier version has no incarnations. The control plane records those that the host reports first,
// and its documents have them from then on. Before that, the same report is an alarm, because it differs from the
// recorded incarnations.
func TestADirectoryOfAnEarlierVersionGetsItsIncarnations(t *testing.T) {
	t.Parallel()
	p := startPlane(t, nil)
	h := p.startHost("h1", keyring.Host)
	_, admin := p.org("acme")
	c := p.cloud(admin)
	ns := p.namespace(c, "acme", "orders")
	minted := p.stored(ns.ID).Incarnations
	until(t, "the host hears that the namespace is ready", func() bool { d, _ := h.doc(ns.ID); return d.Ready })
	own := []entry.Incarnation{{7}}
	h.foundedBefore(ns.ID, own)
	until(t, "the namespace says that its host has another history", func() bool {
		got, err := c.Namespace(t.Context(), ns.ID)
		return err == nil && strings.Contains(got.Status.Message, own[0].String())
	})
	if got := p.stored(ns.ID).Incarnations; !slices.Equal(got, minted) {
		t.Errorf("recorded are %v, want %v", got, minted)
	}
	if err := p.cloud(p.operator).PauseReconcile(t.Context(), ns.ID); err != nil {
		t.Fatal(err)
	}
	p.close()
	p.serving.Lock()
	dropFoundings(t, p.cfg.DataDir)
	p.open()
	p.down.Store(false)
	p.serving.Unlock()
	until(t, "the namespace says that it is paused", func() bool {
		got, err := c.Namespace(t.Context(), ns.ID)
		return err == nil && strings.Contains(got.Status.Message, "paused")
	})
	if err := p.cloud(p.operator).ResumeReconcile(t.Context(), ns.ID); err != nil {
		t.Fatal(err)
	}
	until(t, "the first report is recorded", func() bool { return p.stored(ns.ID).Founded })
	if got := p.stored(ns.ID).Incarnations; !slices.Equal(got, own) {
		t.Errorf("recorded are %v, want %v", got, own)
	}
	until(t, "the document has them", func() bool {
		d, _ := h.doc(ns.ID)
		return slices.Equal(d.Incarnations, own)
	})
	rows, err := c.Audit(t.Context(), ns.Org)
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, row := range rows {
		if row.Action == "found-namespace" {
			count++
		}
	}
	if count != 2 { // one at the create
		t.Errorf("%d foundings were audited", count)
	}
}

// dropFoundings removes the table that the databases of earlier versions do not have.
func dropFoundings(t *testing.T, dir string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "state", "state-*.db"))
	if err != nil || len(paths) != 1 {
		t.Fatalf("the databases are %q, %v", paths, err)
	}
	db, err := sql.Open("sqlite", paths[0])
	if err == nil {
		_, err = db.Exec("DROP TABLE foundings")
		err = errors.Join(err, db.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A host that has lost the data of a namespace founds nothing in its place, and the namespace says why.
func TestLostDataIsNotFoundedAgain(t *testing.T) {
	t.Parallel()
	p := startPlane(t, nil)
	h := p.startHost("h1", keyring.Host)
	_, admin := p.org("acme")
	c := p.cloud(admin)
	ns := p.namespace(c, "acme", "orders")
	until(t, "the host may found no more", func() bool { d, _ := h.doc(ns.ID); on := h.memberOf(d); return on != nil && on.Role == wire.Join })
	h.mu.Lock()
	clear(h.histories)
	h.nudge()
	h.mu.Unlock()
	until(t, "the namespace says that its data is missing", func() bool {
		got, err := c.Namespace(t.Context(), ns.ID)
		return err == nil && strings.Contains(got.Status.Message, "its data is missing")
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.histories) > 0 {
		t.Errorf("the host has founded %v", h.histories)
	}
}

// A host that loses its store before the founding is recorded does not block the create: a store is told to found
// with new incarnations, which is done once, also if the reconciler stops before or after that.
func TestALostFounderIsReplaced(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"", "replace before", "replace after"} {
		t.Run(strings.ReplaceAll(point, " ", "-"), func(t *testing.T) {
			t.Parallel()
			crashed := make(chan struct{})
			var once sync.Once
			p := startPlane(t, func(c *Config) {
				c.Reached = func(reached string) {
					if reached == point {
						once.Do(func() {
							close(crashed)
							runtime.Goexit()
						})
					}
				}
			})
			h := p.startHost("h1", keyring.Host)
			h.be(false, "no room")
			org, admin := p.org("acme")
			c := p.cloud(admin)
			op, err := c.CreateNamespace(t.Context(), "acme", api.CreateNamespaceRequest{Name: "orders"})
			if err != nil {
				t.Fatal(err)
			}
			id := op.Resource.ID
			until(t, "the founder has failed", func() bool {
				ns, err := c.Namespace(t.Context(), id)
				return err == nil && strings.Contains(ns.Status.Message, "no room")
			})
			before := p.stored(id)
			empty := p.runHost("h1", keyring.Host, h.credential)
			if point != "" {
				<-crashed
				p.restart()
			}
			until(t, "the namespace is ready", func() bool {
				op, err = c.Operation(t.Context(), op.ID)
				return err == nil && op.Status != api.OperationRunning
			})
			now := p.stored(id)
			if op.Status != api.OperationDone || now.Members[0].Store != empty.store || now.Generation != before.Generation+1 || !now.Founded {
				t.Errorf("the create: %+v, the namespace: %+v", op, now)
			}
			if slices.Equal(now.Incarnations, before.Incarnations) {
				t.Errorf("both stores were told to found %v", now.Incarnations)
			}
			rows, err := p.cloud(admin).Audit(t.Context(), org.ID)
			if err != nil {
				t.Fatal(err)
			}
			count := map[string]int{}
			for _, row := range rows {
				count[row.Action]++
			}
			if count["place-namespace"] != 2 || count["found-namespace"] != 1 || count["settle-namespace"] != 1 {
				t.Errorf("audited were %v", count)
			}
		})
	}
}
