package duties

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corvo/corvo/dataplane/op"
)

// manage creates n audit records.
func (s *shard) manage(n int) {
	s.t.Helper()
	for range n {
		_, next := s.store.Head().GetAudit().Records()
		s.mustApply(&op.SetQueue{Queue: "q", Meta: &op.Meta{RequestId: fmt.Appendf(nil, "%016d", next), Audit: &op.Audit{Method: "POST", Path: "/p", Status: 200}}})
	}
}

func (s *shard) auditIs(first, next uint64) {
	s.t.Helper()
	if f, n := s.store.Head().GetAudit().Records(); f != first || n != next {
		s.t.Errorf("the audit log is [%d,%d), want [%d,%d)", f, n, first, next)
	}
}

func TestAuditIsBounded(t *testing.T) {
	inShardOf(t, Config{FeedKeep: feedKept, UsageKeep: 1 << 40, AuditKeep: 8}, func(s *shard) {
		s.manage(10)
		time.Sleep(time.Minute)
		synctest.Wait()
		s.auditIs(1, 11) // within the slack
		s.manage(20)
		time.Sleep(time.Minute)
		synctest.Wait()
		s.auditIs(23, 31)
	})
}

func TestAuditIsKeptForItsTime(t *testing.T) {
	const kept = time.Hour
	inShardOf(t, Config{FeedKeep: feedKept, UsageKeep: 1 << 40, AuditKept: kept}, func(s *shard) {
		s.manage(3)
		time.Sleep(usageStride)
		synctest.Wait()
		s.auditIs(1, 4)
		time.Sleep(kept + time.Minute)
		synctest.Wait()
		s.auditIs(4, 4)
	})
}
