package main

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/cmd/internal/proctest"
)

// TestALostQuorumIsRecovered kills two of the three hosts of a namespace. An operator recovers it from the third, whose
// process is killed before and after it has refounded the groups. The recovery ends, and no job is lost or doubled. The
// lost hosts return with their data, while a tenant works: each sets its old copy aside, becomes a member of the refounded
// groups, and deletes the old copy when the namespace has all its members.
func TestALostQuorumIsRecovered(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	binary := proctest.Build(t, "../..", "./cmd/corvo-cloud")
	m := startMixedCloud(ctx, t, binary)
	m.members("")
	jobs := int64(0)
	enqueue := func(n int) {
		t.Helper()
		for range n {
			if _, err := m.client.Enqueue(ctx, api.EnqueueRequest{Queue: "q"}); err != nil {
				t.Fatal(err)
			}
			jobs++
		}
	}
	enqueue(20)
	at := -1 // of the leader, which has all jobs
	eventually(t, ctx, "a leader", func() bool { at = slices.IndexFunc(m.hosts, m.leads); return at >= 0 })
	kept, lost := m.hosts[at], slices.Delete(slices.Clone(m.hosts), at, at+1)
	for _, h := range lost {
		h.process.Kill(t)
	}

	var said api.RecoverCluster
	recovers := func() (err error) {
		said, err = m.operator.RecoverCluster(ctx, m.namespace, api.RecoverClusterRequest{From: kept.name, AcceptLoss: true})
		return err
	}
	eventually(t, ctx, "the recovery is accepted", func() bool { return recovers() == nil }) // once both hosts are silent
	if said.Status != api.ClusterRecovering || len(said.Kept) != 1 || len(said.GivenUp) != 2 {
		t.Errorf("the recovery says %+v", said)
	}
	kept.process.Kill(t)
	m.startMixed(kept, binary)
	const refounded, aside = "this host refounded the groups of a namespace", "this host sets its copy of a namespace aside"
	killed := kept.process.Log()
	eventually(t, ctx, "the groups are refounded", func() bool { return strings.Contains(killed+kept.process.Log(), refounded) })
	kept.process.Kill(t)
	m.startMixed(kept, binary)
	eventually(t, ctx, "the recovery ends", func() bool { return recovers() == nil && said.Status == api.ClusterRecovered })
	m.pending(jobs)
	enqueue(10)

	for _, h := range lost {
		m.startMixed(h, binary)
		enqueue(10)
	}
	for _, h := range lost {
		eventually(t, ctx, h.name+" sets its copy aside", func() bool { return strings.Contains(h.process.Log(), aside) })
		enqueue(5)
	}
	m.members("")
	eventually(t, ctx, "the old copies are deleted", func() bool {
		left, err := filepath.Glob(filepath.Join(m.dir, "host-*", "aside", m.namespace+".*"))
		return err == nil && len(left) == 0
	})
	enqueue(5)
	m.pending(jobs)
	kept.process.Kill(t) // the others have all of it
	m.pending(jobs)
}

// pending waits until the namespace is led and checks the number of its waiting jobs.
func (m *mixedCloud) pending(want int64) {
	m.t.Helper()
	var got api.Queue
	eventually(m.t, m.ctx, "a read from the leader", func() bool {
		var err error
		got, err = m.client.Queue(m.ctx, "q", client.Read{Strong: true})
		return err == nil
	})
	if got.Pending != want {
		m.t.Errorf("%d jobs wait, %d were acknowledged", got.Pending, want)
	}
}
