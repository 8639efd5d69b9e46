package allinone

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// A change of a custom role reaches the data plane as fast as a revocation: a key with the role may use a new
// permission at once, and a waiting fetch that the role no longer allows ends. One of several tries must
// keep the promise, as in TestARevokedKeyStopsWithinTwoSeconds.
func TestAChangedRoleBindsWithinTwoSeconds(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	for i := range revocationTries {
		granted, ended := changeRole(t, c, fmt.Sprint("n", i))
		t.Logf("granted after %v, the waiting poll ended after %v", granted, ended)
		if granted < revokedWithin && ended < revokedWithin {
			return
		}
	}
	t.Errorf("a changed role does not bind within %v", revokedWithin)
}

// changeRole measures how long after a change of its role a key gains a permission, and a waiting fetch with
// that key ends.
func changeRole(t *testing.T, c *Cloud, namespace string) (granted, ended time.Duration) {
	t.Helper()
	id, _, admin := c.namespace(t, namespace)
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	cloud := c.cloud(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := cloud.PutNamespaceRole(ctx, id, "shift", api.RoleRequest{Permissions: []string{"job.work"}}, 0)
	must(err)
	key, err := cloud.CreateNamespaceKey(ctx, id, api.CreateCloudKeyRequest{CreateKeyRequest: api.CreateKeyRequest{Name: "shift", Roles: []string{"shift"}}})
	must(err)
	worker := c.client(t, key.APIKey)
	if _, err := worker.Enqueue(ctx, api.EnqueueRequest{Queue: "q"}); api.CodeOf(err) != api.Forbidden {
		t.Fatalf("a right that the role does not grant: %v", err)
	}
	none, err := worker.Fetch(ctx, api.FetchRequest{Queues: []string{"none"}, WorkerID: "w", Timeout: ptr(0)})
	if err != nil {
		t.Fatalf("a right that the role grants: %v, %v", none, err)
	}
	parked := make(chan error, 1)
	go func() {
		_, err := worker.Fetch(ctx, api.FetchRequest{Queues: []string{"none"}, WorkerID: "w", Timeout: ptr(60)})
		parked <- err
	}()
	_, err = cloud.PutNamespaceRole(ctx, id, "shift", api.RoleRequest{Permissions: []string{"job.enqueue"}}, 0)
	must(err)
	changed := time.Now()
	for {
		_, err := worker.Enqueue(ctx, api.EnqueueRequest{Queue: "q"})
		if err == nil {
			break
		}
		if api.CodeOf(err) != api.Forbidden || ctx.Err() != nil {
			t.Fatalf("the role's new right: %v", err)
		}
	}
	granted = time.Since(changed)
	if err := <-parked; api.CodeOf(err) != api.Forbidden {
		t.Errorf("the poll that waited with the key ended with %v", err)
	}
	ended = time.Since(changed)
	if err := cloud.DeleteNamespaceRole(ctx, id, "shift", 0); api.CodeOf(err) != api.Conflict {
		t.Errorf("a role in use is deleted: %v", err)
	}
	for what, err := range map[string]error{
		"list": func() error { _, err := admin.Roles(ctx, client.Read{}); return err }(),
		"put": func() error {
			_, err := admin.PutRole(ctx, "r", api.RoleRequest{Permissions: []string{"job.read"}}, 0)
			return err
		}(),
	} {
		if api.CodeOf(err) != api.Unsupported || !strings.Contains(err.Error(), "/cloud/v1/namespaces/"+id+"/roles") {
			t.Errorf("%s of roles at the data plane: %v", what, err)
		}
	}
	return granted, ended
}
