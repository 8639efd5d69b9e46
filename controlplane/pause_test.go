package controlplane

import (
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/tenancy/keyring"
)

// While an operator has paused a namespace's reconciliation, its operation waits and says so, after a restart too. Other
// namespaces go on. After the pause the operation ends.
func TestAPausedNamespaceWaits(t *testing.T) {
	t.Parallel()
	p := startPlane(t, nil)
	h := p.startHost("h1", keyring.Host)
	_, admin := p.org("acme")
	c, ops, ctx := p.cloud(admin), p.cloud(p.operator), t.Context()
	h.be(true, "")
	op, err := c.CreateNamespace(ctx, "acme", api.CreateNamespaceRequest{Name: "orders"})
	if err != nil {
		t.Fatal(err)
	}
	id := op.Resource.ID
	until(t, "the cluster waits for its host", func() bool {
		found, err := ops.Cluster(ctx, id)
		return err == nil && len(found.Status.Members) == 1 && strings.Contains(found.Status.Waiting, "has not heard of it yet")
	})
	if err := ops.PauseReconcile(ctx, id); err != nil {
		t.Fatal(err)
	}
	h.be(false, "")
	paused := func(state string) {
		t.Helper()
		until(t, "the paused cluster shows its cells "+state, func() bool {
			found, err := ops.Cluster(ctx, id)
			return err == nil && len(found.Status.Members) == 1 && found.Status.Members[0].State == state &&
				strings.Contains(found.Status.Waiting, "paused") && found.Status.Pause != nil
		})
		if o, err := c.Operation(ctx, op.ID); err != nil || o.Status != api.OperationRunning || !strings.Contains(o.Message, "an operator of the cloud paused its reconciliation at ") {
			t.Errorf("the operation of a paused namespace: %+v, %v", o, err)
		}
	}
	p.namespace(c, "acme", "other") // the loop has worked with the host's reports, and is at work
	paused(wire.Opened)
	p.restart()
	p.namespace(c, "acme", "third")
	paused(wire.Opened)

	found, err := ops.Cluster(ctx, id)
	_, operator, _ := keyring.Parse(p.operator)
	if err != nil || found.Status.Pause == nil || found.Status.Pause.By != operator || found.Status.Phase != api.NamespaceProvisioning {
		t.Errorf("the cluster shows %+v, %v, want a pause by %s", found.Status, err, operator)
	}
	if err := ops.ResumeReconcile(ctx, id); err != nil {
		t.Fatal(err)
	}
	if op, err = c.WaitOperation(ctx, op.ID); err != nil || op.Status != api.OperationDone {
		t.Fatalf("the create after the pause: %+v, %v", op, err)
	}

	// A tenant may delete a paused namespace. Its host deletes the data, and the operation ends after the pause.
	if err := ops.PauseReconcile(ctx, id); err != nil {
		t.Fatal(err)
	}
	if op, err = c.DeleteNamespace(ctx, id, 0); err != nil {
		t.Fatal(err)
	}
	paused(wire.Gone)
	if err := ops.ResumeReconcile(ctx, id); err != nil {
		t.Fatal(err)
	}
	if op, err = c.WaitOperation(ctx, op.ID); err != nil || op.Status != api.OperationDone {
		t.Fatalf("the delete after the pause: %+v, %v", op, err)
	}
}
