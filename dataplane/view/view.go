package view

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/corvo/corvo/dataplane/state"
)

// fileName is the view's file in its directory.
const fileName = "view.db"

// DefaultFlushEvery is the least time between two flushes nobody waits for.
const DefaultFlushEvery = 200 * time.Millisecond

// Options are what a view needs besides its directory and its store.
type Options struct {
	Logger     *slog.Logger  // nil: slog.Default()
	FlushEvery time.Duration // 0: DefaultFlushEvery
	Readers    int           // connections for queries; 0: the cores less one, at least one
}

// View follows one store. Its methods may be called by any goroutine.
//
// One goroutine, the flusher, owns the file, its writing connection and the
// cursor. Readers hold swap for reading during a query; the flusher takes it
// for the moment in which it replaces the file, and never otherwise.
type View struct {
	store *state.Store
	o     Options
	path  string
	log   *slog.Logger

	stop     context.CancelFunc
	stopped  chan struct{} // closed when the flusher has ended
	grown    chan struct{} // the feed has grown
	prompted chan struct{} // a reader waits
	patience patience

	// behindSince is when the feed first grew after the last flush that reached
	// its end, as nanoseconds of the process's clock; 0 when there is nothing new.
	behindSince atomic.Int64

	// reached is the last moment, by the same clock, of which the file shows
	// everything; 0 while there is none.
	reached atomic.Int64

	// pace is how many events a second the last flushes have shown; 0 = none has yet.
	pace atomic.Uint64

	// building is set while a new file is built.
	building atomic.Bool

	// shown is when a flush last showed something new, by the same clock.
	shown atomic.Int64

	// doubt is what a reader found wrong with the file.
	doubt     atomic.Pointer[string]
	suspected atomic.Int64 // when one last was, though SQLite says it is sound; by clock

	swap    sync.RWMutex
	current *database // nil until there is a file to query

	rates rates

	mu       sync.Mutex
	position position      // what readers see
	moved    chan struct{} // closed when position changes
	failure  error         // why the last attempt to project failed
	asked    []chan error  // callers of Rebuild
	closed   bool

	// The flusher's own.
	db     *database
	cursor cursor
	// nextDocument is one more than the highest job number in the view: jobs
	// from it on have no document row yet. Numbers rise with creation, and the
	// feed tells of creations in order.
	nextDocument uint64
	scrubbed     scrubbed
}

// Open starts a view of the store in dir, which it creates. It returns at once:
// a file that is missing, broken, of another history or too far behind is built
// again beside the flow of requests, which meanwhile get VIEW_BEHIND. The caller
// must call Notify whenever the store's feed has grown, and Close before it
// closes the store.
func Open(dir string, store *state.Store, o Options) (*View, error) {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.FlushEvery == 0 {
		o.FlushEvery = DefaultFlushEvery
	}
	if o.Readers == 0 {
		o.Readers = max(1, runtime.GOMAXPROCS(0)-1)
	}
	dir, err := filepath.Abs(dir) // SQLite's names of files are relative to the process
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the view's directory: %w", err)
	}
	return start(dir, store, o, defaultPatience), nil
}

// patience is how long the view waits for what; tests have their own.
type patience struct {
	replay time.Duration // for a store that is behind the file
	query  time.Duration // for a query
	search budget        // for a search that has its turn
	count  budget        // for what a page does not show
	scrub  time.Duration // until rows are compared with the store again
}

var defaultPatience = patience{
	replay: replayPatience, query: queryLimit, scrub: scrubEvery,
	search: budget{time: searchTime, rows: searchRows, few: maxRange}, count: budget{time: countTime, rows: countRows, chunk: countChunk},
}

func start(dir string, store *state.Store, o Options, p patience) *View {
	v := newView(dir, store, o, p)
	ctx, cancel := context.WithCancel(context.Background())
	v.stop = cancel
	v.Notify()
	go v.run(ctx)
	return v
}

func newView(dir string, store *state.Store, o Options, p patience) *View {
	return &View{
		store:    store,
		o:        o,
		path:     filepath.Join(dir, fileName),
		log:      o.Logger.With("view", dir),
		stopped:  make(chan struct{}),
		grown:    make(chan struct{}, 1),
		prompted: make(chan struct{}, 1),
		moved:    make(chan struct{}),
		patience: p,
	}
}

// busyFor is how long after a change more of them are expected.
const busyFor = time.Second

// busy says whether jobs change: there is something the view does not show yet, or it
// has shown something a moment ago.
func (v *View) busy() bool {
	shown := v.shown.Load()
	return v.behindSince.Load() != 0 || shown != 0 && clock()-shown < int64(busyFor)
}

// Notify says that the feed may have grown. It never blocks.
func (v *View) Notify() {
	if v.behindSince.Load() == 0 {
		v.behindSince.CompareAndSwap(0, clock())
	}
	signal(v.grown)
}

// epoch makes clock a reading of the monotonic clock that is never 0, also for a moment
// before the process began.
var epoch = time.Now().Add(-365 * 24 * time.Hour)

func clock() int64 { return int64(time.Since(epoch)) }

// signal leaves a token in a channel of capacity one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Close stops following and closes the file; queries under way finish first. It
// may be called more than once.
func (v *View) Close() error {
	v.stop()
	<-v.stopped

	v.withdraw()
	v.mu.Lock()
	v.closed = true
	v.mu.Unlock()
	v.answer(v.takeAsked(), errClosed)
	if v.db == nil {
		return nil
	}
	db := v.db
	v.db = nil
	return db.close()
}

// Cursor is how far the view is: the sequence of the first event not in it, and
// the raft index up to which everything is. Both are 0 while there is no view.
func (v *View) Cursor() (seq, index uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.position.seq, v.position.index
}

// Err is why the view does not follow the store, nil while it does. Projection
// is tried again until it works; what failed is not skipped.
func (v *View) Err() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.failure
}

// suspect has the file built again, because a reader found it broken. A row that
// cannot be read may be a mistake of ours, which another file will have as well.
func (v *View) suspect(err error) {
	if now := clock(); !corrupt(err) {
		if last := v.suspected.Load(); last != 0 && now-last < int64(scrubAgain) || !v.suspected.CompareAndSwap(last, now) {
			return
		}
	}
	reason := err.Error()
	v.doubt.Store(&reason)
	signal(v.prompted)
}

// position is what a reader may rely on.
type position struct {
	seq   uint64 // first event not in the view; 0 while there is no view
	index uint64 // everything up to it is in the view
}

// publish tells readers and waiters how far the file they query is.
func (v *View) publish(p position) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.position != p {
		v.position = p
		v.wake()
	}
}

// withdraw takes the file from the readers.
func (v *View) withdraw() {
	v.publish(position{})
	v.reached.Store(0)
	v.swap.Lock()
	v.current = nil
	v.swap.Unlock()
}

// wake wakes all waiters; v.mu is held.
func (v *View) wake() {
	close(v.moved)
	v.moved = make(chan struct{})
}
