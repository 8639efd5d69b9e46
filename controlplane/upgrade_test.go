package controlplane

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/engine/cluster"
)

const later = store.FeatureLevel + 1

// TestTheLevelRisesWithTheLastProcess upgrades the processes of a control plane one by one to a binary that knows a later
// feature level. The level rises only after the last one, and an earlier binary then neither opens a process's directory
// nor joins.
func TestTheLevelRisesWithTheLastProcess(t *testing.T) {
	t.Parallel()
	all := startPlanes(t, 3)
	for i, p := range all {
		if i > 0 {
			// The leader has heard of all processes, and one of them does not know the later level.
			until(t, "a leader knows the level of all processes", func() bool {
				leader, _ := leaderOf(t, all)
				level, ok := leader.store.Group().MembersLevel()
				return ok && level == store.FeatureLevel
			})
		}
		for _, q := range all {
			if got := q.store.Level(); got != store.FeatureLevel {
				t.Fatalf("the level is %d after %d processes were upgraded", got, i)
			}
		}
		p.close()
		p.cfg.MaxLevel = later
		rejoin(p)
	}
	for _, p := range all {
		until(t, "the level has risen", func() bool { return p.store.Level() == later })
	}
	if _, err := all[2].cloud(all[2].operator).CreateOrg(t.Context(), api.CreateOrgRequest{Name: "after"}); err != nil {
		t.Error(err)
	}

	all[2].close()
	earlier := all[2].cfg
	of := *earlier.Cluster
	of.Listener = of.Listener.(*opening).of.listen()
	earlier.Cluster, earlier.MaxLevel = &of, store.FeatureLevel
	says := fmt.Sprintf("the store has feature level %d, this binary knows %d: start a newer one", later, store.FeatureLevel)
	refusedToOpen(t, earlier, says)

	newcomer := Config{DataDir: t.TempDir(), Endpoint: "http://gateway.test", Version: "0.1", NodeID: "control-4", Logger: quiet()}
	newcomer.Cluster = &cluster.Config{Token: of.Token, Join: []string{all[0].cluster.Address()}, Listener: newAddress(t).listen()}
	refusedToOpen(t, newcomer, fmt.Sprintf("the cluster works at feature level %d and version 0.1 knows no higher one than %d", later, store.FeatureLevel))
	rejoin(all[2])
}

// refusedToOpen checks that a process ends at its start with an error.
func refusedToOpen(t *testing.T, cfg Config, says string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	if _, err := Open(ctx, cfg); err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("%v; it should say %q", err, says)
	}
}
