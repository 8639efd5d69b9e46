package state

import (
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/image"
)

// Restore replaces the whole content by the parts of an image and makes it durable before it returns. The
// applying goroutine calls it, with no Tx open. Restore refuses parts that are cut or corrupt, are no store,
// or hold another entry than the source claims (by a method Applied), and leaves everything as it was. A
// crash before the new content is complete leaves the old content too. An error after that makes the store
// fail; see Err. Readers see the new content at once; a Snapshot or JobReader keeps the old.
//
// Tables that the source has on this disk are linked, because tables are never written to, and only their
// sizes are checked. All other files are copied. The old content's files are removed when its last reader
// ends.
func (s *Store) Restore(from image.Source) error {
	if err := s.usable(); err != nil {
		return err
	}
	old := s.gen
	number := old.number + 1
	dir := s.dbDir(number)
	gen, c, err := s.receive(from, number)
	if err != nil {
		return errors.Join(fmt.Errorf("restore: %w", err), s.fs.RemoveAll(dir))
	}
	if err := s.moveMarker(number); err != nil {
		// After a crash the marker may point to the old content or to the new one, so neither may be written
		// any more.
		return s.failure.set(errors.Join(fmt.Errorf("restore: %w", err), gen.release()))
	}
	s.publish.Lock()
	s.mu.Lock()
	s.install(gen, c)
	s.mu.Unlock()
	s.publish.Unlock()
	s.tx = Tx{}
	old.onLastRelease(func() error { return s.fs.RemoveAll(s.dbDir(old.number)) })
	err = old.release()
	if err == nil {
		err = s.announce()
	}
	if err != nil {
		return s.failure.set(fmt.Errorf("after a restore: %w", err))
	}
	return nil
}

// receive puts an image's parts into a directory and opens it.
func (s *Store) receive(from image.Source, number uint64) (*generation, *caches, error) {
	parts := from.Parts()
	if err := image.Check(parts); err != nil {
		return nil, nil, err
	}
	dir := s.dbDir(number)
	if err := s.fs.RemoveAll(dir); err != nil {
		return nil, nil, err
	}
	if err := s.fs.MkdirAll(dir, 0o755); err != nil {
		return nil, nil, err
	}
	for _, p := range parts {
		if err := s.place(from, p, s.fs.PathJoin(dir, p.Name)); err != nil {
			return nil, nil, err
		}
	}
	if err := errors.Join(syncDir(s.fs, dir), syncDir(s.fs, s.dir)); err != nil {
		return nil, nil, err
	}
	gen, err := s.openGeneration(number, true)
	if err != nil {
		return nil, nil, err
	}
	gen.sums.set(parts)
	c, err := loadCaches(gen.db)
	if err == nil {
		err = compareClaim(from, c.head)
	}
	if err != nil {
		return nil, nil, errors.Join(err, gen.release())
	}
	return gen, c, nil
}

// compareClaim refuses an image whose entry differs from the source's claim.
func compareClaim(from image.Source, h *Head) error {
	claim, ok := from.(interface{ Applied() entry.Applied })
	if !ok {
		return nil
	}
	if got, want := h.applied(), claim.Applied(); got != want {
		return fmt.Errorf("the image holds entry %d of term %d of group %q, history %x; it claims entry %d of term %d of group %q, history %x",
			got.Index, got.Term, got.Group, got.Incarnation, want.Index, want.Term, want.Group, want.Incarnation)
	}
	return nil
}

// place links or copies a part. The file's content is durable afterwards, its name is not yet.
func (s *Store) place(from image.Source, p image.Part, to string) (err error) {
	if located, ok := from.(image.Located); ok && immutable(p.Name) && onDisk(s.fs) {
		// If the link fails, for example on another disk, the part is copied.
		if path := located.Path(p.Name); path != "" && s.fs.Link(path, to) == nil {
			info, err := s.fs.Stat(to)
			if err == nil && info.Size() != p.Size {
				err = fmt.Errorf("%s has %d bytes, it should have %d", path, info.Size(), p.Size)
			}
			return err
		}
	}
	r, err := from.Open(p.Name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	f, err := s.fs.Create(to, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	if _, err = io.Copy(f, image.Verify(p, r)); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// Held returns the path of the store's table that has the name and the size of a part, or "" if there is
// none. The table is probably the part, because a restore keeps the names of an image's tables, but Held does
// not compare the content.
func (s *Store) Held(p image.Part) string {
	if !immutable(p.Name) || !onDisk(s.fs) {
		return ""
	}
	gen, err := s.acquire()
	if err != nil {
		return "" // a closed store holds nothing
	}
	path := s.fs.PathJoin(s.dbDir(gen.number), p.Name)
	info, err := s.fs.Stat(path)
	// An error here only means that the part is sent.
	if errors.Join(err, gen.release()) != nil || info.Size() != p.Size {
		return ""
	}
	return path
}

// announce calls the hooks, except OnAudit, for the content of the store.
func (s *Store) announce() error {
	clockNs := s.head.Load().GetClockNs()
	for _, q := range s.queues {
		if n := q.fetchable(clockNs); n > 0 && s.hooks.OnReady != nil {
			s.hooks.OnReady(q.rec.Name, n)
		}
	}
	for class := TimerScheduled; class < timerClasses; class++ {
		due, ok, err := s.NextDue(class)
		if err != nil {
			return err
		}
		if ok && s.hooks.OnTimer != nil {
			s.hooks.OnTimer(class, due)
		}
	}
	if due, ok := s.NextReplenish(); ok && s.hooks.OnReplenish != nil {
		s.hooks.OnReplenish(due)
	}
	if due := s.retentions.next(math.MinInt64); due != latest && s.hooks.OnRetention != nil {
		s.hooks.OnRetention(due)
	}
	if len(s.Clearings()) > 0 && s.hooks.OnClearing != nil {
		s.hooks.OnClearing()
	}
	if s.hooks.OnFeed != nil {
		s.hooks.OnFeed()
	}
	if s.hooks.OnUsage != nil {
		s.hooks.OnUsage()
	}
	if s.hooks.OnMeters != nil {
		s.hooks.OnMeters()
	}
	if s.hooks.OnKeys != nil {
		s.hooks.OnKeys()
	}
	if s.hooks.OnResources != nil {
		s.hooks.OnResources()
	}
	s.memberChanges.notify()
	if len(s.gates.all) > 0 && s.hooks.OnGate != nil {
		s.hooks.OnGate()
	}
	s.notifyBulk()
	if s.hooks.OnOutbox != nil {
		s.hooks.OnOutbox()
	}
	return nil
}
