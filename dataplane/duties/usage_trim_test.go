package duties

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

// report creates n usage rows.
func (s *shard) report(n int) *op.Leased {
	s.t.Helper()
	id := s.enqueue(time.Time{}, "")
	leased := s.fetch(time.Hour)
	o := &op.Heartbeat{Meta: &op.Meta{}}
	for range n {
		o.Items = append(o.Items, &op.HeartbeatItem{
			Proof: &op.LeaseProof{Id: id[:], Token: leased.LeaseToken}, Usage: &job.Usage{InputTokens: 1},
		})
	}
	s.mustApply(o)
	return leased
}

// reportAndAck creates n usage rows of a job that ends with the last of them.
func (s *shard) reportAndAck(n int) {
	s.t.Helper()
	leased := s.report(n - 1)
	s.mustApply(&op.Ack{Meta: &op.Meta{}, Items: []*op.AckItem{{Proof: &op.LeaseProof{Id: leased.Id, Token: leased.LeaseToken}, Usage: &job.Usage{InputTokens: 1}}}})
}

func (s *shard) usageIs(first, next uint64) {
	s.t.Helper()
	if head := s.store.Head(); head.GetUsageFirstSeq() != first || head.GetUsageNextSeq() != next {
		s.t.Errorf("the usage is [%d,%d), want [%d,%d)", head.GetUsageFirstSeq(), head.GetUsageNextSeq(), first, next)
	}
}

func TestUsageNobodyReceivesIsTrimmed(t *testing.T) {
	inShardOf(t, Config{FeedKeep: feedKept, UsageKeep: 8}, func(s *shard) {
		s.report(10)
		time.Sleep(time.Minute)
		synctest.Wait()
		s.usageIs(1, 11) // within the slack
		s.report(20)
		time.Sleep(time.Minute)
		synctest.Wait()
		s.usageIs(23, 31)
		if n := s.proposals(); n != 1 {
			t.Errorf("%d ops were proposed for one trim", n)
		}
	})
}

// Rows that the receiver has not acknowledged stay, however many there are.
func TestUsageIsKeptForItsReceiver(t *testing.T) {
	var acked atomic.Uint64
	inShardOf(t, Config{FeedKeep: feedKept, UsageKeep: 8, UsageAcked: acked.Load}, func(s *shard) {
		for range 5 {
			s.report(100)
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		s.usageIs(1, 501)
		if n := s.proposals(); n != 0 {
			t.Errorf("%d ops were proposed", n)
		}
		for _, step := range []struct{ acked, first uint64 }{{0, 1}, {10, 11}, {300, 301}, {500, 493}} {
			acked.Store(step.acked)
			s.duties.OnUsage()
			time.Sleep(2 * trimEvery)
			synctest.Wait()
			s.usageIs(step.first, 501)
		}
		// A receiver that has acknowledged less than was removed causes no further removal.
		acked.Store(3)
		s.report(100)
		time.Sleep(time.Minute)
		synctest.Wait()
		s.usageIs(493, 601)
	})
}

// If another leader has trimmed in between, the duty looks again and does not fail.
func TestARefusedTrimOfUsageIsNoFailure(t *testing.T) {
	inShardOf(t, Config{FeedKeep: feedKept, UsageKeep: 8}, func(s *shard) {
		refused := error(api.Errorf(api.StateConflict, "gone already"))
		s.refuse.Store(&refused)
		s.report(20)
		time.Sleep(time.Minute)
		synctest.Wait()
		s.usageIs(1, 21)
		s.refuse.Store(nil)
		time.Sleep(trimEvery)
		synctest.Wait()
		s.usageIs(13, 21)
	})
}

func TestUsageTrimTo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name                    string
		first, next, keep, want uint64
	}{
		{"nothing", 1, 1, 10, 1},
		{"within what is kept", 1, 11, 10, 1},
		{"within the slack", 1, 13, 10, 1},
		{"beyond the slack", 1, 14, 10, 4},
		{"nothing is kept", 5, 9, 0, 9},
	} {
		if got := usageTrimTo(c.first, c.next, c.keep); got != c.want {
			t.Errorf("%s: usageTrimTo(%d, %d, %d) = %d, want %d", c.name, c.first, c.next, c.keep, got, c.want)
		}
	}
}

// Rows are removed by their age, once a day, even if nothing else happens and their receiver has had them for
// long.
func TestUsageIsKeptForItsTime(t *testing.T) {
	var acked atomic.Uint64
	acked.Store(1000)
	const kept = time.Hour
	inShardOf(t, Config{FeedKeep: feedKept, UsageKeep: 1 << 40, UsageKept: kept, UsageAcked: acked.Load}, func(s *shard) {
		s.reportAndAck(10)
		time.Sleep(kept / 2)
		s.reportAndAck(5)
		time.Sleep(usageStride - kept/2) // the oldest rows exceed their time by less than a day
		s.reportAndAck(3)
		synctest.Wait()
		s.usageIs(1, 19)
		time.Sleep(2 * kept)
		synctest.Wait()
		s.usageIs(16, 19)
		acked.Store(17)
		s.duties.OnUsage()
		time.Sleep(usageStride + 2*kept)
		synctest.Wait()
		s.usageIs(18, 19)
		acked.Store(18)
		s.duties.OnUsage()
		time.Sleep(time.Minute)
		synctest.Wait()
		s.usageIs(19, 19)
		if n := s.trims(); n != 3 {
			t.Errorf("%d ops were proposed for three trims", n)
		}
	})
}

// trims returns the number of TrimUsage ops that the duties have proposed.
func (s *shard) trims() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.proposed {
		if _, ok := o.(*op.TrimUsage); ok {
			n++
		}
	}
	return n
}
