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

// DefaultFlushEvery is the shortest time between two flushes while no reader waits.
const DefaultFlushEvery = 200 * time.Millisecond

// Options configure a view.
type Options struct {
	Logger     *slog.Logger  // nil: slog.Default()
	FlushEvery time.Duration // 0: DefaultFlushEvery
	Readers    int           // connections for queries; 0: the cores less one, at least one
}

// View follows one store. Its methods are safe for concurrent use.
//
// One goroutine, the flusher, owns the file, its writing connection and the cursor. Readers hold swap for
// reading during a query. The flusher, and Close after it, lock swap only to install, replace or withdraw the
// file.
type View struct {
	store *state.Store
	o     Options
	path  string
	log   *slog.Logger

	stop     context.CancelFunc
	stopped  chan struct{} // closed when the flusher has ended
	grown    chan struct{} // the feed has grown
	prompted chan struct{} // a reader waits
	limits   timeLimits

	// behindSince is the time when the feed first grew after the last flush that reached its end, or when the file was
	// withdrawn, in nanoseconds of the process's clock; 0 if nothing is new.
	behindSince atomic.Int64

	// reached is the last moment, by the process's clock, up to which the file shows everything; 0 while
	// there is none.
	reached atomic.Int64

	// pace is the number of events per second that the last flushes have projected; 0 = none yet.
	pace atomic.Uint64

	// building is set while the flusher builds a new file.
	building atomic.Bool

	// shown is the time, by the process's clock, when a flush last showed something new.
	shown atomic.Int64

	// damage is a fault that a reader found in the file.
	damage    atomic.Pointer[string]
	suspected atomic.Int64 // when a reader last doubted a file that SQLite says is sound; by clock

	swap    sync.RWMutex
	current *database // nil until there is a file to query

	rates rates

	mu              sync.Mutex
	position        position      // as readers see it
	moved           chan struct{} // closed when position changes
	failure         error         // why the last attempt to project failed
	rebuildRequests []chan error  // callers of Rebuild
	closed          bool

	// Only the flusher uses these.
	db     *database
	cursor cursor
	// nextDocument is one more than the highest job number in the view. Jobs from it on have no document row
	// yet, because numbers rise with creation and the feed has creations in order.
	nextDocument uint64
	scrubbed     scrubbed
}

// Open starts a view of the store in dir, and creates dir if necessary. It returns at once. A file that is
// missing, broken, of another history or too far behind is built again in the background, and requests get
// VIEW_BEHIND meanwhile unless an old file can still answer. The caller must call Notify whenever the store's
// feed has grown, and Close before it closes the store.
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
	dir, err := filepath.Abs(dir) // SQLite's file names are relative to the process's directory
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the view's directory: %w", err)
	}
	return start(dir, store, o, defaultLimits), nil
}

// timeLimits holds the time limits of the view. Tests set their own.
type timeLimits struct {
	replay time.Duration // for a store that is behind the file
	query  time.Duration // for a query
	search searchLimits  // for a search that has a connection
	count  searchLimits  // for counting the jobs that a page does not show
	scrub  time.Duration // between two comparisons of rows with the store
}

var defaultLimits = timeLimits{
	replay: replayTimeout, query: queryLimit, scrub: scrubEvery,
	search: searchLimits{time: searchTime, rows: searchRows, few: maxRange}, count: searchLimits{time: countTime, rows: countRows, chunk: countChunk},
}

func start(dir string, store *state.Store, o Options, limits timeLimits) *View {
	v := newView(dir, store, o, limits)
	ctx, cancel := context.WithCancel(context.Background())
	v.stop = cancel
	v.Notify()
	go v.run(ctx)
	return v
}

func newView(dir string, store *state.Store, o Options, limits timeLimits) *View {
	return &View{
		store:    store,
		o:        o,
		path:     filepath.Join(dir, fileName),
		log:      o.Logger.With("view", dir),
		stopped:  make(chan struct{}),
		grown:    make(chan struct{}, 1),
		prompted: make(chan struct{}, 1),
		moved:    make(chan struct{}),
		limits:   limits,
	}
}

// busyFor is the time after a change during which more changes are expected.
const busyFor = time.Second

// busy reports whether jobs change: the feed has something that the view does not show yet, or a flush has
// just shown something new.
func (v *View) busy() bool {
	shown := v.shown.Load()
	return v.behindSince.Load() != 0 || shown != 0 && clock()-shown < int64(busyFor)
}

// Notify tells the view that the feed may have grown. It never blocks.
func (v *View) Notify() {
	if v.behindSince.Load() == 0 {
		v.behindSince.CompareAndSwap(0, clock())
	}
	signal(v.grown)
}

// epoch makes clock return a monotonic time that is never 0, even for a moment before the process began.
var epoch = time.Now().Add(-365 * 24 * time.Hour)

func clock() int64 { return int64(time.Since(epoch)) }

// signal leaves a token in a channel of capacity one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Close stops following and closes the file after running queries have finished. It may be called more than
// once.
func (v *View) Close() error {
	v.stop()
	<-v.stopped

	v.withdraw()
	v.mu.Lock()
	v.closed = true
	v.mu.Unlock()
	v.answer(v.takeRebuildRequests(), errClosed)
	if v.db == nil {
		return nil
	}
	db := v.db
	v.db = nil
	return db.close()
}

// Cursor returns the sequence number of the first event that is not in the view, and the raft index up to
// which the view shows everything. Both are 0 while there is no file to query.
func (v *View) Cursor() (seq, index uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.position.seq, v.position.index
}

// Err returns the reason why the view does not follow the store, or nil while it does. The flusher retries a
// failed projection until it succeeds and skips nothing.
func (v *View) Err() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.failure
}

// suspect has the file built again, because a reader found it broken. An unreadable row may be a mistake of
// ours, which another file will have too, so such rows cause a rebuild at most once per scrubAgain.
func (v *View) suspect(err error) {
	if now := clock(); !corrupt(err) {
		if last := v.suspected.Load(); last != 0 && now-last < int64(scrubAgain) || !v.suspected.CompareAndSwap(last, now) {
			return
		}
	}
	reason := err.Error()
	v.damage.Store(&reason)
	signal(v.prompted)
}

// position is the state of the view on which a reader may rely.
type position struct {
	seq   uint64 // first event not in the view; 0 while there is no view
	index uint64 // everything up to it is in the view
}

// publish announces the position of the file to readers and waiters.
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
	if v.reached.Load() != 0 {
		v.behindSince.CompareAndSwap(0, clock()) // what the file showed is missing from now on
	}
	v.publish(position{})
	v.reached.Store(0)
	v.swap.Lock()
	v.current = nil
	v.swap.Unlock()
}

// wake wakes all waiters; the caller holds v.mu.
func (v *View) wake() {
	close(v.moved)
	v.moved = make(chan struct{})
}
