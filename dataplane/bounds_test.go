package dataplane

import (
	"testing"

	"github.com/corvo/corvo/dataplane/host"
	"github.com/corvo/corvo/engine/cluster"
)

// A cluster may be founded with as many shards as a host opens. Neither package imports the other, so this
// test compares their bounds.
func TestShardBoundsAgree(t *testing.T) {
	t.Parallel()
	if cluster.MaxShards != host.MaxShards {
		t.Errorf("a cluster has up to %d shards, a host opens %d of a namespace", cluster.MaxShards, host.MaxShards)
	}
}
