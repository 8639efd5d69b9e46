package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/tenancy"
)

// The tests of this package use these words. openHost opens a host in a directory and closes it with the
// test. add opens a namespace and waits until its first shard leads; ready does that for several shards. A
// cell is one shard of a namespace on this host, and cellOf returns the first. enqueue proposes one job at a
// cell. A config's open function may hold an opening back or let it fail. files lists paths of the data
// directory, because a removed namespace must leave none.

// patience is how long one step may take on a busy machine.
const patience = time.Minute

func openHost(t *testing.T, cfg Config) *Host {
	t.Helper()
	if cfg.DataDir == "" {
		cfg.DataDir = t.TempDir()
	}
	cfg.NodeID, cfg.Logger = cmp.Or(cfg.NodeID, "n1"), slog.New(slog.DiscardHandler)
	h, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(context.Background()); err != nil {
			t.Errorf("close the host: %v", err)
		}
	})
	return h
}

func add(t *testing.T, h *Host, ns tenancy.NamespaceID) *cell.Cell {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := h.Add(ctx, ns, Spec{}); err != nil {
		t.Fatal(err)
	}
	if err := h.Ready(ctx, ns); err != nil {
		t.Fatal(err)
	}
	c, err := cellOf(h, ns)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// cellOf returns the cell of a namespace's first shard.
func cellOf(h *Host, ns tenancy.NamespaceID) (*cell.Cell, error) {
	cells, err := h.Cells(ns)
	if err != nil {
		return nil, err
	}
	return cells[0], nil
}

func enqueue(ctx context.Context, c *cell.Cell) (job.ID, error) {
	id := c.NewID("q")
	_, _, err := cell.Propose[*op.EnqueueResult](ctx, c, &op.Enqueue{
		Meta: &op.Meta{Ids: [][]byte{id[:]}},
		Jobs: []*op.NewJob{{Queue: "q", Payload: &job.Blob{Data: []byte("marked")}, Retry: &job.Retry{MaxAttempts: 1, Backoff: job.BackoffNone}}},
	})
	return id, err
}

// files returns the paths below the host's data directory that contain word.
func files(t *testing.T, h *Host, word string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(h.cfg.DataDir, func(path string, _ fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed during the walk
		}
		if rest := strings.TrimPrefix(path, h.cfg.DataDir); strings.Contains(rest, word) {
			found = append(found, rest)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestOneNamespaceThatOpensSlowlyDelaysNoOther checks that a tenant with a slow disk or a long log does not
// delay the requests or the opening of others.
func TestOneNamespaceThatOpensSlowlyDelaysNoOther(t *testing.T) {
	t.Parallel()
	opening, proceed := make(chan struct{}), make(chan struct{})
	var opens atomic.Int64
	h := openHost(t, Config{open: func(c cell.Config) (*cell.Cell, error) {
		if c.Group == "slow/0" {
			opens.Add(1)
			close(opening) // a second opening would panic here
			<-proceed
		}
		return cell.Open(c)
	}})
	add(t, h, "before")
	outcomes := make(chan error, 3)
	go func() { outcomes <- h.Add(context.Background(), "slow", Spec{}) }()
	<-opening
	for range 2 {
		go func() { outcomes <- h.Add(context.Background(), "slow", Spec{}) }()
	}
	if _, err := enqueue(t.Context(), add(t, h, "other")); err != nil {
		t.Errorf("beside a slow opening: %v", err)
	}
	if err := h.Remove(t.Context(), "other"); err != nil {
		t.Errorf("remove beside a slow opening: %v", err)
	}
	if _, err := cellOf(h, "before"); err != nil {
		t.Errorf("what was open: %v", err)
	}
	if _, err := cellOf(h, "slow"); api.CodeOf(err) != api.LeaderUnavailable || !api.CodeOf(err).Retryable() {
		t.Errorf("a namespace that is being opened: %v, want a retryable refusal", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.Add(gone, "slow", Spec{}); !errors.Is(err, context.Canceled) {
		t.Errorf("who waits for it and leaves: %v", err)
	}
	close(proceed)
	for range 3 {
		// The later calls either shared the opening or found the namespace open.
		if err := <-outcomes; err != nil && api.CodeOf(err) != api.Conflict {
			t.Error(err)
		}
	}
	if _, err := cellOf(h, "slow"); err != nil || opens.Load() != 1 {
		t.Errorf("opened %d times: %v", opens.Load(), err)
	}
}

func TestCloseWaitsForWhatIsBeingOpened(t *testing.T) {
	t.Parallel()
	opening, proceed := make(chan struct{}), make(chan struct{})
	h := openHost(t, Config{open: func(c cell.Config) (*cell.Cell, error) {
		close(opening)
		<-proceed
		return cell.Open(c)
	}})
	added, closed := make(chan error, 1), make(chan error, 1)
	go func() { added <- h.Add(context.Background(), "a", Spec{}) }()
	<-opening
	go func() { closed <- h.Close(context.Background()) }()
	for {
		if err := h.Remove(t.Context(), "b"); api.CodeOf(err) == api.LeaderUnavailable {
			break // the host is closing
		} else if err != nil {
			t.Fatal(err)
		}
	}
	select {
	case err := <-closed:
		t.Fatalf("the host is closed while a cell opens: %v", err)
	default:
	}
	close(proceed)
	if err := <-added; err != nil {
		t.Errorf("the opening under way: %v", err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if left := h.Namespaces(); len(left) > 0 {
		t.Errorf("%v are open in a closed host", left)
	}
}

func TestAnOpeningThatFailsLeavesNothingOpen(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	broken.Store(true)
	disk := errors.New("the disk is gone")
	h := openHost(t, Config{MaxCells: 1, open: func(c cell.Config) (*cell.Cell, error) {
		if broken.Load() {
			return nil, disk
		}
		return cell.Open(c)
	}})
	if err := h.Add(t.Context(), "a", Spec{}); !errors.Is(err, disk) {
		t.Fatalf("%v, want %v", err, disk)
	}
	if _, err := cellOf(h, "a"); err == nil {
		t.Error("it has a cell nevertheless")
	}
	broken.Store(false)
	add(t, h, "a") // the failed opening does not count against MaxCells
}

func TestCellsAreBounded(t *testing.T) {
	t.Parallel()
	h := openHost(t, Config{MaxCells: 2})
	add(t, h, "a")
	add(t, h, "b")
	if err := h.Add(t.Context(), "c", Spec{}); api.CodeOf(err) != api.Overloaded {
		t.Errorf("a third of 2: %v, want %s", err, api.Overloaded)
	}
	if err := h.Shut(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	add(t, h, "c")
}

// TestOnlyNamesOfNamespacesBecomeDirectories checks that the host refuses an id that names another directory,
// because it deletes the directory with all its contents.
func TestOnlyNamesOfNamespacesBecomeDirectories(t *testing.T) {
	t.Parallel()
	h := openHost(t, Config{DataDir: filepath.Join(t.TempDir(), "data")})
	outside := filepath.Join(h.cfg.DataDir, "..", "precious")
	if err := os.MkdirAll(outside, 0o700); err != nil {
		t.Fatal(err)
	}
	long := tenancy.NamespaceID(strings.Repeat("n", MaxIDLength))
	for _, ns := range []tenancy.NamespaceID{
		"", ".", "..", "../precious", "../../precious", "a/b", "a/../../../precious", "/etc", `a\b`, "a\x00", "a b", "-rf", "a.b", "é", "a\n", long + "n",
	} {
		for what, err := range map[string]error{"add": h.Add(t.Context(), ns, Spec{}), "remove": h.Remove(t.Context(), ns), "shut": h.Shut(t.Context(), ns)} {
			if api.CodeOf(err) != api.ValidationError {
				t.Errorf("%s %q: %v, want %s", what, ns, err, api.ValidationError)
			}
		}
	}
	if _, err := os.Stat(outside); err != nil {
		t.Error(err)
	}
	if made := files(t, h, "/"); len(made) > 0 {
		t.Errorf("%q were made", made)
	}
	for _, ns := range []tenancy.NamespaceID{"default", "ns_0aZ-9", long} {
		if err := checkID(ns); err != nil {
			t.Errorf("%s: %v", ns, err)
		}
	}
}

// TestRemoveLeavesNothing checks that a deletion leaves no byte of a namespace, and that a namespace added
// again under the same id is empty.
func TestRemoveLeavesNothing(t *testing.T) {
	t.Parallel()
	h := openHost(t, Config{})
	old := add(t, h, "a")
	id, err := enqueue(t.Context(), old)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := enqueue(t.Context(), add(t, h, "b"))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second call finds nothing and returns no error
		if err := h.Remove(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if left := slices.Concat(files(t, h, "/a"), files(t, h, trashDir+"/")); len(left) > 0 {
			t.Fatalf("after its deletion there are %q", left)
		}
	}
	c := add(t, h, "a")
	if j, err := c.State().Job(id); err != nil || j != nil || c.State().Head().GetQueueRecords() != 0 {
		t.Errorf("a namespace added again has %v, %v", j, err)
	}
	other, err := cellOf(h, "b")
	if err != nil {
		t.Fatal(err)
	}
	if j, err := other.State().Job(kept); err != nil || j == nil {
		t.Errorf("the other namespace has %v, %v", j, err)
	}
}

func TestShutKeepsTheData(t *testing.T) {
	t.Parallel()
	h := openHost(t, Config{})
	id, err := enqueue(t.Context(), add(t, h, "a"))
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Shut(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if disk, err := h.OnDisk(); err != nil || !slices.Equal(disk, []tenancy.NamespaceID{"a"}) || len(h.Namespaces()) != 0 {
		t.Errorf("on disk %v, open %v, %v", disk, h.Namespaces(), err)
	}
	if j, err := add(t, h, "a").State().Job(id); err != nil || j == nil {
		t.Errorf("after it was opened again: %v, %v", j, err)
	}
}

// TestACrashWhileDeletingLeavesNoHalfNamespace checks that a crash between the rename and the end of a
// deletion leaves the partial directory in the trash. It cannot be opened as a namespace, and the next start
// deletes it.
func TestACrashWhileDeletingLeavesNoHalfNamespace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := openHost(t, Config{DataDir: dir})
	id, err := enqueue(t.Context(), add(t, h, "a"))
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Shut(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if err := h.discard("a"); err != nil { // and then the power fails
		t.Fatal(err)
	}
	trash := files(t, h, trashDir+"/a.")
	if len(trash) == 0 {
		t.Fatal("it is not in the trash")
	}
	if err := os.RemoveAll(filepath.Join(dir, trash[0], "0", "raft")); err != nil {
		t.Fatal(err)
	}
	again := openHost(t, Config{DataDir: dir})
	if left := files(t, again, trashDir+"/"); len(left) > 0 {
		t.Errorf("the next start left %q", left)
	}
	if j, err := add(t, again, "a").State().Job(id); err != nil || j != nil {
		t.Errorf("of the deleted namespace there is %v, %v", j, err)
	}
}

// TestRemoveFinishesWhatAnEarlierTryLeft checks that a repeated deletion also deletes the rest of a failed
// one in the trash, but nothing of another namespace.
func TestRemoveFinishesWhatAnEarlierTryLeft(t *testing.T) {
	t.Parallel()
	h := openHost(t, Config{})
	for _, name := range []string{"a.1", "a.2", "ab.1"} {
		if err := os.MkdirAll(filepath.Join(h.cfg.DataDir, trashDir, name, "0"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.Remove(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if left := files(t, h, trashDir+"/a"); !slices.Equal(left, []string{"/trash/ab.1", "/trash/ab.1/0"}) {
		t.Errorf("there is %q", left)
	}
}

func TestTrashThatCannotBeDeletedStopsTheStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, trashDir), nil, 0o600); err != nil { // a file, not a directory
		t.Fatal(err)
	}
	if h, err := Open(Config{DataDir: dir}); err == nil {
		h.Close(t.Context())
		t.Error("the host opens although it cannot finish its deletions")
	}
}

// TestNothingIsClosedUnderItsVisitors checks that a request keeps its cell open until it ends, and that a
// request that comes while the namespace closes is told to try again.
func TestNothingIsClosedUnderItsVisitors(t *testing.T) {
	t.Parallel()
	h := openHost(t, Config{})
	c := add(t, h, "a")
	leave, err := h.Visit("a")
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan error, 1)
	go func() { closed <- h.Shut(context.Background(), "a") }()
	for {
		again, err := h.Visit("a")
		if api.CodeOf(err) == api.LeaderUnavailable {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		again()
	}
	if _, err := enqueue(t.Context(), c); err != nil {
		t.Errorf("a visitor's write: %v", err)
	}
	select {
	case err := <-closed:
		t.Fatalf("closed under its visitor: %v", err)
	default:
	}
	leave()
	if err := <-closed; err != nil {
		t.Error(err)
	}
	// A request that outlasts the closing gets errors and does not crash.
	if _, err := enqueue(t.Context(), c); err == nil {
		t.Error("a closed cell took a write")
	}
	if _, err := c.State().Job(job.ID{}); err == nil {
		t.Error("a closed cell was read")
	}
	c.Claimable([]string{"q"})
	if _, err := c.View().Queue("q"); err == nil {
		t.Error("a closed view was read")
	}
}

// TestManyNamespacesComeAndGo adds, uses and removes twenty namespaces at the same time.
func TestManyNamespacesComeAndGo(t *testing.T) {
	t.Parallel()
	h := openHost(t, Config{})
	var group sync.WaitGroup
	for n := range 20 {
		ns := tenancy.NamespaceID(fmt.Sprintf("ns_%d", n))
		group.Go(func() {
			for range 2 {
				c := add(t, h, ns)
				var clients sync.WaitGroup
				for range 3 {
					clients.Go(func() {
						leave, err := h.Visit(ns)
						if err != nil {
							return // the namespace is already closing
						}
						defer leave()
						if _, err := enqueue(context.Background(), c); err != nil {
							t.Errorf("%s: %v", ns, err)
						}
					})
				}
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				if n%2 == 0 {
					clients.Wait()
				}
				polled := make(chan error, 1)
				go func() { polled <- h.Park(ctx, ns, []string{"nothing"}, func() error { return nil }) }()
				if err := h.Remove(ctx, ns); err != nil {
					t.Errorf("%s: %v", ns, err)
				}
				clients.Wait()
				if err := <-polled; api.CodeOf(err) != api.LeaderUnavailable {
					t.Errorf("a poll of the closed %s: %v", ns, err)
				}
				cancel()
			}
		})
	}
	group.Wait()
	if left := slices.Concat(files(t, h, "ns_"), files(t, h, trashDir+"/")); len(left) > 0 {
		t.Errorf("there are %q", left)
	}
}
