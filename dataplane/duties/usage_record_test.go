package duties

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// metered is the configuration of a shard whose usage somebody receives.
func metered() Config {
	return Config{FeedKeep: feedKept, UsageKeep: 1 << 40, StoredBytes: func() (uint64, error) { return 1000, nil }}
}

// raise raises the feature level to that of RecordUsage.
func (s *shard) raise() {
	s.t.Helper()
	s.mustApply(&op.RaiseLevel{Meta: &op.Meta{}, Level: op.KindFor(&op.RecordUsage{}).Since})
	s.duties.OnLevel()
	synctest.Wait()
}

// complete enqueues, fetches and acks a job.
func (s *shard) complete() {
	s.t.Helper()
	s.enqueue(time.Time{}, "")
	leased := s.fetch(time.Hour)
	s.mustApply(&op.Ack{Meta: &op.Meta{}, Items: []*op.AckItem{{Proof: &op.LeaseProof{Id: leased.Id, Token: leased.LeaseToken}}}})
}

// pass lets time pass.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// meters returns the sums of the usage rows since the start of an hour, and the number of rows.
func (s *shard) meters(since time.Time) (sum *state.QueueMeters, openSeconds, rows uint64) {
	s.t.Helper()
	sum = &state.QueueMeters{}
	snap := s.store.Snapshot()
	defer snap.Close()
	for row, err := range snap.Usage(0) {
		if err != nil {
			s.t.Fatal(err)
		}
		m := row.Record.Meters
		if m == nil || row.Record.ClockNs < since.UnixNano() {
			continue
		}
		rows++
		openSeconds += m.OpenSeconds
		for _, q := range m.Queues {
			sum.JobsEnqueued += q.JobsEnqueued
			sum.JobsCompleted += q.JobsCompleted
			sum.ActiveSeconds += q.ActiveSeconds
		}
	}
	return sum, openSeconds, rows
}

// Quantities are recorded once a minute, whatever their number, and nothing before the level allows it.
func TestMetersAreRecordedWithinAMinute(t *testing.T) {
	inShardOf(t, metered(), func(s *shard) {
		s.complete()
		pass(time.Hour)
		if n := s.proposals(); n != 0 {
			t.Fatalf("%d ops were proposed below the level", n)
		}
		s.raise()
		if n := s.proposals(); n != 1 || s.store.Head().GetMeteredNs() != time.Now().UnixNano() {
			t.Fatalf("%d ops were proposed, and the metering begins at %d", n, s.store.Head().GetMeteredNs())
		}
		begun := time.Now()
		s.complete()
		pass(recordEvery - 1)
		s.complete()
		if _, _, rows := s.meters(begun); rows != 0 {
			t.Fatalf("%d rows before a minute has passed", rows)
		}
		pass(1)
		if sum, open, rows := s.meters(begun); sum.JobsEnqueued != 2 || sum.JobsCompleted != 2 || open != 60 || rows != 1 {
			t.Errorf("after a minute %d rows have %d jobs enqueued, %d completed and %d s open", rows, sum.JobsEnqueued, sum.JobsCompleted, open)
		}
		pass(10 * recordEvery)
		if n := s.proposals(); n != 2 {
			t.Errorf("%d ops were proposed, although nothing has happened since the second", n)
		}
	})
}

// An idle shard records its open time once an hour, and all of it within the hour.
func TestOpenTimeOfAnIdleShard(t *testing.T) {
	inShardOf(t, metered(), func(s *shard) {
		s.raise()
		pass(time.Hour)
		begun, before := time.Now(), s.proposals()
		pass(24 * time.Hour)
		if n := s.proposals() - before; n != 24 {
			t.Errorf("%d ops were proposed in an idle day", n)
		}
		if _, open, rows := s.meters(begun); open != 24*3600 || rows != 24 {
			t.Errorf("%d rows of an idle day have %d s open", rows, open)
		}
	})
}

// Quantities of an hour are recorded before its end.
func TestMetersAreRecordedInTheirHour(t *testing.T) {
	inShardOf(t, metered(), func(s *shard) {
		s.raise()
		end := time.Now().Truncate(time.Hour).Add(time.Hour)
		pass(time.Until(end) - recordLead - recordSpread - time.Second)
		before := s.proposals()
		s.complete()
		pass(time.Until(end) - 1)
		if sum, _, _ := s.meters(time.Time{}); sum.JobsEnqueued != 1 {
			t.Errorf("%d jobs are recorded at the end of the hour", sum.JobsEnqueued)
		}
		if n := s.proposals() - before; n != 1 {
			t.Errorf("%d ops were proposed at the end of an hour", n)
		}
	})
}

// A shard whose usage nobody receives records nothing, so that an idle one adds nothing to its log.
func TestNobodyReceivesMeters(t *testing.T) {
	inShard(t, feedKept, func(s *shard) {
		s.raise()
		s.complete()
		pass(3 * time.Hour)
		if err := s.duties.RecordUsage(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := s.proposals(); n != 0 || s.store.Head().GetMeteredNs() != 0 {
			t.Errorf("%d ops were proposed", n)
		}
	})
}
