package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/dataplane/view"
)

// viewTimeout bounds the time in which a view catches up. A view syncs its file to a real disk, which other
// processes may keep busy, so the bound is generous: the simulation does not judge the speed of the disk.
const viewTimeout = 2 * time.Minute

// watch makes a real view follow the first shard, in a directory on the disk. At times the simulation does
// not notify it of new events, so that it lags.
//
// The view has a goroutine of its own, so the seed does not replay how it groups the events that it reads.
// The final contents of the view must not depend on that.
func (s *simulation) watch(dir string, seed uint64) error {
	s.watched = &watched{dir: dir, rng: rand.New(rand.NewPCG(seed, 1)), moments: map[string][]int{"": {0}}}
	s.shards[0].steady.store.SetHooks(state.Hooks{OnFeed: func() {
		if w := s.watched; w.view != nil && !w.sleeps {
			w.view.Notify()
		}
	}})
	return s.openView()
}

// openView opens the view, for the first time or on the file that it left.
func (s *simulation) openView() (err error) {
	w, store := s.watched, s.shards[0].steady.store
	if w.cursor > 0 && w.cursor < store.Head().GetFeedFirstSeq() {
		w.out.OldFile++
	}
	w.view, err = view.Open(w.dir, store, view.Options{Logger: slog.New(slog.DiscardHandler)})
	return err
}

// inspectView compares the view with one rebuilt from the state, and with the model.
func (s *simulation) inspectView() (err error) {
	w := s.watched
	if w.view == nil {
		if err := s.openView(); err != nil {
			return err
		}
	}
	defer func() { err = errors.Join(err, w.view.Close()) }()
	ctx := context.Background()
	w.view.Notify()
	live, err := s.dumpView(ctx)
	if err != nil {
		return err
	}
	queues, err := w.view.Queues(ctx, nil)
	if err != nil {
		return err
	}
	for _, q := range queues {
		if counted := s.shards[0].model.count(q.Name, job.Completed); q.Completed != int64(counted) {
			return fmt.Errorf("the view counts %d completed jobs in %s, the model %d", q.Completed, q.Name, counted)
		}
	}
	if len(queues) != len(s.shards[0].model.queues) {
		return fmt.Errorf("the view has %d queues, the model %d", len(queues), len(s.shards[0].model.queues))
	}
	if err := w.view.Rebuild(ctx); err != nil {
		return fmt.Errorf("rebuild: %w", err)
	}
	rebuilt, err := s.dumpView(ctx)
	if err != nil {
		return err
	}
	return sameLines(live, rebuilt)
}

// sameLines reports the first line in which a view's dump differs from the dump of a rebuilt one.
func sameLines(live, rebuilt []byte) error {
	a, b := bytes.Split(live, []byte("\n")), bytes.Split(rebuilt, []byte("\n"))
	for i := range max(len(a), len(b)) {
		var x, y []byte
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if !bytes.Equal(x, y) {
			return fmt.Errorf("line %d is %q, in a rebuilt view %q", i+1, x, y)
		}
	}
	return nil
}

func (s *simulation) dumpView(ctx context.Context) ([]byte, error) {
	limited, cancel := context.WithTimeout(ctx, viewTimeout)
	defer cancel()
	if err := s.watched.view.Wait(limited, s.shards[0].steady.index()); err != nil {
		return nil, errors.Join(err, s.watched.view.Err()) // the answer hides its cause from clients
	}
	var dump bytes.Buffer
	err := s.watched.view.Dump(ctx, &dump)
	return dump.Bytes(), err
}
