package cell

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/corvo/corvo/dataplane/op"
)

func TestStatusFollowsWhatHappens(t *testing.T) {
	t.Parallel()
	c := openTest(t, Config{})
	// The leader sets the shipped prices and the feature level at its start, each by an op of its own, which may share
	// an entry. A job after them makes sure that they have been counted.
	eventually(t, "the shipped prices and the feature level", func() bool {
		return c.State().ResourceIndex().HasPrices() && c.Level() == op.FeatureLevel
	})
	enqueue(t, c, "first", nil, time.Time{})
	if err := c.View().Wait(t.Context(), uint64(c.Applied())); err != nil {
		t.Fatal(err)
	}
	before, err := c.Status()
	if err != nil {
		t.Fatal(err)
	}
	enqueue(t, c, "a", nil, time.Time{})
	enqueue(t, c, "b", nil, time.Time{})
	if err := c.View().Wait(t.Context(), uint64(c.Applied())); err != nil {
		t.Fatal(err)
	}
	after, err := c.Status()
	if err != nil {
		t.Fatal(err)
	}
	if after.FeedEvents != before.FeedEvents+2 || after.Queues != before.Queues+2 {
		t.Errorf("%d events and %d queues, then %d and %d", before.FeedEvents, before.Queues, after.FeedEvents, after.Queues)
	}
	if after.ViewLag != 0 || after.ViewBehind != 0 || after.ViewApplied != c.Applied() {
		t.Errorf("the view is %d events behind for %v, at %d of %d", after.ViewLag, after.ViewBehind, after.ViewApplied, c.Applied())
	}
	if n := after.Engine.QueueTime.Count() - before.Engine.QueueTime.Count(); n != 2 {
		t.Errorf("%d ops have waited for an entry, want 2", n)
	}
	if n := after.Engine.ApplyTime.Count() - before.Engine.ApplyTime.Count(); n != 2 {
		t.Errorf("%d entries were applied, want 2", n)
	}
	if after.Engine.ApplyTime.Sum <= before.Engine.ApplyTime.Sum {
		t.Error("they were applied in no time")
	}
}

func TestDisk(t *testing.T) {
	t.Parallel()
	c := openTest(t, Config{})
	if free, err := c.FreeDisk(); err != nil || free <= 0 {
		t.Errorf("%d bytes free, %v", free, err)
	}
	before, err := c.DataBytes()
	if err != nil {
		t.Fatal(err)
	}
	const more = 1 << 30 // much more than the cell itself writes
	f, err := os.Create(filepath.Join(c.cfg.Dir, "state", "more"))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(more); err != nil { // a sparse file takes no disk space
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	after, err := c.DataBytes()
	if err != nil || before <= 0 || after < before+more/2 {
		t.Errorf("%d bytes, then %d, %v", before, after, err)
	}
}

func TestDiskThatIsGone(t *testing.T) {
	t.Parallel()
	c := &Cell{cfg: Config{Dir: filepath.Join(t.TempDir(), "gone")}}
	if free, err := c.FreeDisk(); err == nil {
		t.Errorf("%d bytes free where nothing is", free)
	}
}
