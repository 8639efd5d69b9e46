package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/cmd/internal/proctest"
)

// awaitRoles waits until the processes of the control plane have these roles, each as "id role", as one of them sees it.
func (m *members) awaitRoles(ctx context.Context, asked int, want ...string) {
	m.t.Helper()
	c := m.operator(asked)
	var got []string
	var err error
	defer func() {
		if m.t.Failed() {
			m.t.Logf("the processes are %q, %v", got, err)
		}
	}()
	eventually(m.t, ctx, fmt.Sprintf("the processes are %q", want), func() bool {
		var all []api.Process
		all, err = c.Processes(ctx)
		got = nil
		for _, p := range all {
			role := p.Role
			if role == api.ProcessLeader {
				role = api.ProcessVoter
			}
			got = append(got, p.ID+" "+role)
		}
		return slices.Equal(got, want)
	})
}

// removalRefused checks that the removal of a process is refused by another.
func (m *members) removalRefused(ctx context.Context, asked int, id string, code api.Code, says string) {
	m.t.Helper()
	if err := m.operator(asked, client.WithRetries(5)).RemoveProcess(ctx, id); api.CodeOf(err) != code || !strings.Contains(err.Error(), says) {
		m.t.Errorf("remove %s at process %d: %v; it should say %q", id, asked+1, err, says)
	}
}

// TestALostProcessIsRemoved kills one of three processes for good, removes it and joins another in its place. The
// removed process stays out when its machine comes back. Then the leader is removed, alive, which hands its leadership
// over.
func TestALostProcessIsRemoved(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	m := startMembers(t, 3, "http://127.0.0.1:1")
	m.leader(ctx)
	m.awaitRoles(ctx, 0, "control-1 voter", "control-2 voter", "control-3 voter")
	all, err := m.operator(1, client.WithRetries(5)).Processes(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range all {
		if p.URL != secure(m.relays[i]) || p.Address != m.peerAddress(i) || p.Version == "" || p.Level == 0 || p.Self != (i == 1) {
			t.Errorf("%+v", p)
		}
	}

	// The machine of the third process is lost.
	restarted := m.args(2)
	m.all[2].Kill(t)
	m.relays[2].To("")
	m.removalRefused(ctx, 0, "control-9", api.NotFound, `no process "control-9"`)
	m.removalRefused(ctx, 0, "control-1", api.StateConflict, "no process removes itself")
	eventually(t, ctx, "the leader misses the third process", func() bool {
		all, err := m.operator(0).Processes(ctx)
		return err == nil && len(all) == 3 && (all[2].LastContactMs < 0 || all[2].LastContactMs > 3000)
	})
	m.removalRefused(ctx, 0, "control-2", api.StateConflict, "no majority")
	if err := m.operator(0, client.WithRetries(5)).RemoveProcess(ctx, "control-3"); err != nil {
		t.Fatal(err)
	}
	m.awaitRoles(ctx, 1, "control-1 voter", "control-2 voter")
	rows, err := m.operator(1, client.WithRetries(5)).OperatorAudit(ctx, "-")
	if err != nil || !slices.ContainsFunc(rows, func(r api.AuditRow) bool { return r.Action == "remove-process" && r.Target == "control-3" }) {
		t.Errorf("the removal is not audited: %+v, %v", rows, err)
	}

	// Its machine comes back, and so does the next time.
	for range 2 {
		if code, says := ends(t, nil, restarted...); code != 1 || !strings.Contains(says, "this node was removed from its cluster") {
			t.Errorf("the removed process: exit %d: %s", code, says)
		}
	}
	// Another process takes its place.
	m.relays, m.all = append(m.relays, proctest.NewRelay(t)), append(m.all, nil)
	m.start(3)
	m.awaitRoles(ctx, 3, "control-1 voter", "control-2 voter", "control-4 voter")

	// The leader leaves.
	leader, other, gone := "", 0, 0
	eventually(t, ctx, "a leader is known", func() bool {
		all, err := m.operator(0).Processes(ctx)
		i := slices.IndexFunc(all, func(p api.Process) bool { return p.Role == api.ProcessLeader })
		if err != nil || i < 0 {
			return false
		}
		leader, other, gone = all[i].ID, 0, []int{0, 1, 3}[i]
		if all[i].Self {
			other = 1
		}
		return true
	})
	if err := m.operator(other, client.WithRetries(5)).RemoveProcess(ctx, leader); err != nil {
		t.Fatal(err)
	}
	left := slices.DeleteFunc([]string{"control-1 voter", "control-2 voter", "control-4 voter"}, func(row string) bool { return strings.HasPrefix(row, leader) })
	m.awaitRoles(ctx, other, left...)
	if _, err := m.operator(other, client.WithRetries(5)).CreateOrg(ctx, api.CreateOrgRequest{Name: "acme"}); err != nil {
		t.Error(err)
	}
	eventually(t, ctx, "the removed leader is not ready", func() bool { return m.checks(ctx)[gone] == nil })
	if err := m.all[gone].Terminate(t); err != nil {
		t.Errorf("the removed leader was stopped: %v", err)
	}
	if !strings.Contains(m.all[gone].Log(), "this node was removed from its cluster") {
		t.Errorf("the removed leader does not log it:\n%s", m.all[gone].Log())
	}
}
