package controlplane

import (
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/tenancy/keyring"
)

// life creates a namespace, waits until it is ready, deletes it and waits until it is deleted, even if the
// control plane stops meanwhile.
func life(t *testing.T, p *plane, c *client.Cloud) (create, remove api.Operation) {
	t.Helper()
	var err error
	if create, err = c.CreateNamespace(t.Context(), "acme", api.CreateNamespaceRequest{Name: "orders"}); err != nil {
		t.Fatal(err)
	}
	ended := func(id string) (o api.Operation) {
		until(t, "operation "+id+" ends", func() bool {
			// A closed plane gives no answer, so the test asks again.
			o, err = c.Operation(t.Context(), id)
			return err == nil && o.Status != api.OperationRunning
		})
		return o
	}
	create = ended(create.ID)
	until(t, "the delete is taken", func() bool {
		remove, err = c.DeleteNamespace(t.Context(), create.Resource.ID, 0)
		return err == nil
	})
	return create, ended(remove.ID)
}

// The reconciler may stop before or after any of its changes. When the control plane is opened again, every
// operation ends and nothing is done twice.
func TestCrashAtEveryPointOfReconcile(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var points []string
	p := startPlane(t, func(c *Config) {
		c.Reached = func(point string) {
			mu.Lock()
			defer mu.Unlock()
			points = append(points, point)
		}
	})
	p.startHost("h1", keyring.Host)
	_, admin := p.org("acme")
	life(t, p, p.cloud(admin))
	want := []string{"place before", "place after", "found before", "found after", "settle before", "settle after", "remove before", "remove after"}
	passed := func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(points)
	}
	// The last point is passed a moment after the operation has ended.
	until(t, "the reconciler is done", func() bool { return len(passed()) >= len(want) })
	if got := passed(); !slices.Equal(got, want) {
		t.Fatalf("the reconciler passes %q, want %q", got, want)
	}
	for _, point := range want {
		t.Run(strings.ReplaceAll(point, " ", "-"), func(t *testing.T) {
			t.Parallel()
			crashAt(t, point)
		})
	}
}

func crashAt(t *testing.T, point string) {
	crashed := make(chan struct{})
	var once sync.Once
	p := startPlane(t, func(c *Config) {
		c.Reached = func(reached string) {
			if reached == point {
				once.Do(func() {
					close(crashed)
					runtime.Goexit() // and with it the loop
				})
			}
		}
	})
	h := p.startHost("h1", keyring.Host)
	org, admin := p.org("acme")
	var restarted sync.WaitGroup
	restarted.Go(func() {
		select {
		case <-crashed:
			p.restart()
		case <-t.Context().Done():
		}
	})
	create, remove := life(t, p, p.cloud(admin))
	select {
	case <-crashed:
	case <-time.After(waitLimit):
		t.Fatalf("the reconciler did not pass %q", point)
	}
	restarted.Wait()
	if create.Status != api.OperationDone || remove.Status != api.OperationDone {
		t.Errorf("the operations ended as %+v and %+v", create, remove)
	}
	ops, err := p.cloud(admin).Operations(t.Context(), "")
	var ids []string
	for _, op := range ops {
		ids = append(ids, op.ID)
	}
	if want := []string{remove.ID, create.ID}; err != nil || !slices.Equal(ids, want) {
		t.Errorf("the operations are %q, %v; want %q", ids, err, want)
	}
	rows, err := p.cloud(admin).Audit(t.Context(), org.ID)
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, row := range rows {
		count[row.Action]++
	}
	want := map[string]int{
		"create-org": 1, "create-credential": 1, "create-namespace": 1, "place-namespace": 1,
		"found-namespace": 1, "settle-namespace": 1, "delete-namespace": 1, "remove-namespace": 1,
	}
	if !maps.Equal(count, want) {
		t.Errorf("audited were %v, want %v", count, want)
	}
	if err := p.store.VerifyAudit(t.Context()); err != nil {
		t.Error(err)
	}
	host, err := p.store.Host(t.Context(), h.member.ID())
	if err != nil || host.Namespaces != 0 {
		t.Errorf("the host has %d namespaces left, %v", host.Namespaces, err)
	}
}
