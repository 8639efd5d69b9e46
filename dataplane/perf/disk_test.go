//go:build unix

package perf_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/raftlog"
	"github.com/corvo/corvo/engine/replica"
)

// TestMeasureDisk watches the disk use of three nodes while jobs are enqueued, fetched and acked at a
// constant rate. For a third of each minute one follower is closed, longer than the log reaches back, so that
// it receives a snapshot. The figures are those of "Disk use under constant load" in docs/benchmarks.md:
//
//	go test ./dataplane/perf -run TestMeasureDisk -v -timeout 120m -measure.minutes=30
//
// Completed jobs stay, and nothing else makes the state and the view grow.
func TestMeasureDisk(t *testing.T) {
	skipUnless(t, *minutes, "measure.minutes")
	ns := openNodes(t, 3, engine.Tuning{
		SnapshotBytes: 4 << 20, TrailingBytes: 1 << 20,
		Logs: &raftlog.Factory{SegmentBytes: 1 << 20, Logger: replica.NewLogger(quiet())},
	})
	leader := ns.leader()
	c := leader.Cells()[0]
	const callers = 32
	every := callers * time.Second / time.Duration(*rate)
	next := make([]time.Time, callers)
	l := startLoad(callers, func(caller int) error {
		time.Sleep(time.Until(next[caller]))
		next[caller] = time.Now().Add(every)
		return lifecycle(c, caller)
	})
	head := []string{"minute", "completed", "log", "log, most", "staging, most", "feed events", "snapshots", "state", "view", "state + view, a job"}
	rows := [][]string{head}
	for minute := range *minutes {
		peak := ns.sample(t, time.Now().Add(time.Minute))
		s, err := c.Status()
		if err != nil {
			t.Fatal(err)
		}
		of := func(parts ...string) int64 { return sizeOf(append([]string{leader.shardDir()}, parts...)...) }
		state, view, done := of("state"), of("view"), l.done.Load()
		row := []string{
			fmt.Sprint(minute + 1), fmt.Sprint(done), mebibytes(of("raft", "log")), mebibytes(peak.log), mebibytes(peak.staging),
			fmt.Sprint(s.FeedEvents), fmt.Sprint(peak.snapshots), mebibytes(state), mebibytes(view), fmt.Sprintf("%d B", (state+view)/max(done, 1)),
		}
		t.Log(row)
		rows = append(rows, row)
	}
	l.stop(t)
	printTable(fmt.Sprintf("Disk of three nodes at %d jobs/s, in MiB: the leader's, and the most of any node; a snapshot every 4 MiB of log, 1 MiB kept behind it", *rate), rows...)
}

// peak holds the highest disk use of any node within some time, and the number of snapshots that the leader
// took in that time.
type peak struct {
	log, staging int64
	snapshots    int
}

// sample watches all nodes until a time. It closes a follower for the first third of it.
func (ns *nodes) sample(t *testing.T, until time.Time) (p peak) {
	t.Helper()
	seen := watch(t, ns.leader().Cells()[0].Engine())
	ctx, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	var looking sync.WaitGroup
	looking.Go(func() {
		for ; ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
			for _, m := range ns.all {
				p.log = max(p.log, sizeOf(m.shardDir(), "raft", "log"))
				p.staging = max(p.staging, sizeOf(m.shardDir(), "raft", "staging"))
			}
		}
	})
	away := ns.follower()
	ns.shut(away)
	time.Sleep(time.Until(until) / 3)
	ns.open(away)
	<-ctx.Done()
	looking.Wait()
	p.snapshots = seen()
	return p
}
