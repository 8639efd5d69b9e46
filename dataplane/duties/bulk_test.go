package duties

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// startBulk begins a bulk operation that cancels the jobs that a filter finds.
func (s *shard) startBulk() [16]byte {
	s.t.Helper()
	id := job.NewID(time.Now().UnixMilli(), "", job.Entropy{1})
	s.mustApply(&op.StartBulk{
		Meta: &op.Meta{Ids: [][]byte{id[:]}}, Action: state.BulkAction_BULK_ACTION_CANCEL, Filter: []byte(`{"queue":"q"}`), InQueue: "q", Shares: []*op.BulkStart{{}},
	})
	return [16]byte(id)
}

// bulks runs the parts of bulk operations until the test ends or calls stop. find finds the jobs, and ended
// receives the error that Run returned.
func (s *shard) bulks(find func(cursor string) (BulkFound, error)) (stop func(), ended <-chan error) {
	done := make(chan error, 1)
	b := NewBulks(BulkConfig{
		Store: s.store,
		Propose: func(_ context.Context, o *op.RunBulk) (*op.RunBulkResult, error) {
			result, err := s.apply(o)
			if err != nil {
				return nil, err
			}
			return result.(*op.RunBulkResult), nil
		},
		Find: func(_ context.Context, _ *state.BulkPart, _ *state.BulkWork, cursor string, _ int) (BulkFound, error) {
			return find(cursor)
		},
	})
	s.store.SetHooks(state.Hooks{OnBulk: b.OnBulk})
	ctx, cancel := context.WithCancel(context.Background())
	go func() { done <- b.Run(ctx) }()
	return cancel, done
}

// A view that cannot be asked delays bulk operations until it can, and nothing else: whatever error it
// returns, the shard goes on.
func TestABulkOperationWaitsForTheView(t *testing.T) {
	inShard(t, feedKept, func(s *shard) {
		jobs := []job.ID{s.enqueue(time.Time{}, ""), s.enqueue(time.Time{}, "")}
		bulk := s.startBulk()
		const failures = 20
		var asked atomic.Int32
		stop, ended := s.bulks(func(string) (BulkFound, error) {
			if asked.Add(1) <= failures {
				return BulkFound{}, errors.New("disk I/O error")
			}
			return BulkFound{IDs: jobs, Numbers: []uint64{1, 2}}, nil
		})
		time.Sleep(time.Second)
		if n := asked.Load(); n < 3 || n > failures {
			t.Errorf("it was asked %d times within a second", n)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		b, err := s.store.Bulk(bulk)
		if err != nil || b.FinishedNs == 0 || b.Counts().Affected != 2 {
			t.Errorf("%v: the operation is %v", err, b)
		}
		s.is(jobs[1], job.Cancelled)
		stop()
		if err := <-ended; err != nil {
			t.Errorf("it ended with %v", err)
		}
	})
}

// A filter that cannot be read ends the operation, whose record states the reason.
func TestABulkOperationEndsWithAFilterThatCannotBeRead(t *testing.T) {
	inShard(t, feedKept, func(s *shard) {
		s.enqueue(time.Time{}, "")
		bulk := s.startBulk()
		stop, ended := s.bulks(func(string) (BulkFound, error) {
			return BulkFound{}, api.Errorf(api.ValidationError, "there is no field x")
		})
		time.Sleep(time.Minute)
		synctest.Wait()
		b, err := s.store.Bulk(bulk)
		if err != nil || b.FinishedNs == 0 || b.Error == "" {
			t.Errorf("%v: the operation is %v", err, b)
		}
		if n := b.Counts().Processed(); n != 0 {
			t.Errorf("it processed %d jobs", n)
		}
		stop()
		if err := <-ended; err != nil {
			t.Errorf("it ended with %v", err)
		}
	})
}
