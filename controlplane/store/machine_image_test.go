package store

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/corvo/corvo/engine/image"
	"github.com/corvo/corvo/tenancy/keyring"
)

func someState(t testing.TB) *world {
	w := newWorld(t)
	if err := w.Configure(at(1), []byte("members")); err != nil {
		t.Fatal(err)
	}
	w.index++
	w.ok(newOrg("acme"), withKey(newNamespace("org_acme", "a"), "key"), newKey(keyring.Namespace, "ns_a", "k1"), frame("ns_a", 1, 2, usageRow("q", "m", 3)),
		newNamespace("org_acme", "b"), deletion("b"), aside("b", 1, 2))
	return w
}

// An image knows its position before its first byte is read, does not change while the state continues, may
// be written more than once, and makes another machine equal.
func TestImage(t *testing.T) {
	t.Parallel()
	w := someState(t)
	want := w.dump()
	i, err := w.Image()
	if err != nil {
		t.Fatal(err)
	}
	w.ok(newOrg("later"))
	if got := i.Applied(); got != at(2) {
		t.Errorf("the image stands at %+v", got)
	}
	if c, index := i.Configuration(); string(c) != "members" || index != 1 {
		t.Errorf("its membership is %q of %d", c, index)
	}
	one, two := readAll(t, i), readAll(t, i)
	if !bytes.Equal(one.bytes, two.bytes) {
		t.Error("read again it is another")
	}
	if _, err := i.Open("other"); err == nil {
		t.Error("it has another part")
	}
	if err := i.Close(); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(w.path, imagePrefix+"*")); len(left) > 0 {
		t.Errorf("it leaves %v", left)
	}

	other := newWorld(t)
	other.ok(newOrg("replaced"), newKey(keyring.CloudOperator, "", "old"))
	_, changed := other.changes.watch()
	if err := other.Restore(one); err != nil {
		t.Fatal(err)
	}
	if diff := difference(want, other.dump()); diff != "" {
		t.Errorf("restored: %s", diff)
	}
	if got := other.Applied(); got != at(2) {
		t.Errorf("it stands at %+v", got)
	}
	if c, index := other.Configuration(); string(c) != "members" || index != 1 || other.LastClock() != epochNs {
		t.Errorf("its membership is %q of %d, its clock %d", c, index, other.LastClock())
	}
	select {
	case <-changed:
	default:
		t.Error("nobody was told")
	}
	if _, ok := other.credential("old"); ok {
		t.Error("a credential of before opens doors")
	}
	other.index = 2
	other.ok(newOrg("later"))
	if diff := difference(w.dump(), other.dump()); diff != "" {
		t.Errorf("after the next entry: %s", diff)
	}
	other.reopen()
	if diff := difference(w.dump(), other.dump()); diff != "" {
		t.Errorf("after a restart: %s", diff)
	}
}

// An image that is truncated, damaged or not at its claimed position is refused. The present state stays.
func TestDamagedImage(t *testing.T) {
	t.Parallel()
	whole := copyOf(t, someState(t).machine)
	data := whole.bytes
	w := newWorld(t)
	w.ok(newOrg("mine"))
	before := w.dump()
	refuse := func(what string, damaged image.Source) {
		t.Helper()
		if err := w.Restore(damaged); err == nil {
			t.Errorf("%s was taken", what)
		}
		if diff := difference(before, w.dump()); diff != "" {
			t.Fatalf("%s has changed the state: %s", what, diff)
		}
	}
	with := func(bytes []byte) *copied {
		c := *whole
		c.bytes = bytes
		return &c
	}
	for _, n := range []int{0, 1, len(data) / 2, len(data) - 1} {
		refuse("a cut image", with(data[:n]))
	}
	for _, n := range []int{0, 100, len(data) / 2, len(data) - 1} {
		damaged := bytes.Clone(data)
		damaged[n] ^= 1
		refuse("a damaged image", with(damaged))
	}
	refuse("a longer image", with(append(bytes.Clone(data), 0)))
	other := *whole
	other.part.Name = "other.db"
	refuse("an image of another kind", &other)
	other = *whole
	other.at.Index++
	refuse("an image of another entry than it claims", &other)
	w.ok(newOrg("goes-on"))
	if err := w.Restore(whole); err != nil {
		t.Error(err)
	}
}

// A crash during a restore leaves the old state, and a crash after it the new one. Leftover files are
// removed.
func TestCrashInRestore(t *testing.T) {
	t.Parallel()
	source := someState(t)
	of := copyOf(t, source.machine)
	for _, after := range []int{1, len(of.bytes) / 2, len(of.bytes)} {
		w := newWorld(t)
		w.ok(newOrg("mine"))
		before := w.dump()
		var crashed string
		of.onGet = func(read int) {
			if crashed == "" && read >= after {
				crashed = copyDir(t, w.path)
			}
		}
		if err := w.Restore(of); err != nil {
			t.Fatal(err)
		}
		old := &world{t: t, path: crashed}
		old.open()
		if diff := difference(before, old.dump()); diff != "" {
			t.Errorf("after %d bytes: %s", after, diff)
		}
		if left, _ := filepath.Glob(filepath.Join(crashed, stateName(2)+"*")); len(left) > 0 {
			t.Errorf("after %d bytes there is left %v", after, left)
		}
		if err := old.machine.close(); err != nil {
			t.Error(err)
		}
		// The new file is the current one as soon as CURRENT names it, even if the old file still exists.
		for _, name := range files(filepath.Join(crashed, stateName(1))) {
			if bytes, err := os.ReadFile(name); err == nil {
				if err := os.WriteFile(filepath.Join(w.path, filepath.Base(name)), bytes, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		w.reopen()
		if diff := difference(source.dump(), w.dump()); diff != "" {
			t.Errorf("after the end: %s", diff)
		}
		if left, _ := filepath.Glob(filepath.Join(w.path, stateName(1)+"*")); len(left) > 0 {
			t.Errorf("after the end there is left %v", left)
		}
	}
}

// An interrupted creation of the directory begins again. A directory whose CURRENT is missing or damaged is
// refused.
func TestDirectory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(newOrg("acme"))
	path := copyDir(t, w.path, "-shm")
	open := func() error {
		m, err := openMachine(path, FeatureLevel, table)
		if err == nil {
			err = m.close()
		}
		return err
	}
	if err := open(); err != nil {
		t.Fatal(err)
	}
	current := filepath.Join(path, currentName)
	for _, text := range []string{"", "state-1.db\n", "state-000001.db", "state-000007.db\n", "../state-000001.db\n"} {
		if err := os.WriteFile(current, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := open(); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
	if err := os.Remove(current); err != nil {
		t.Fatal(err)
	}
	if err := open(); err != nil {
		t.Error(err) // there is only one it can have named
	}
	if err := os.Remove(current); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(path, stateName(2)), []byte("another"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := open(); err == nil {
		t.Error("one of two states was guessed")
	}
	if err := os.Remove(filepath.Join(path, stateName(2))); err != nil {
		t.Fatal(err)
	}
	again := &world{t: t, path: path}
	again.open()
	if n := again.Applied().Index; n != 1 {
		t.Errorf("after all that the state is at entry %d", n)
	}
	if err := again.machine.close(); err != nil {
		t.Error(err)
	}
	fresh := t.TempDir()
	if err := os.WriteFile(filepath.Join(fresh, imagePrefix+"new.db"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := openMachine(fresh, FeatureLevel, table)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.close(); err != nil {
		t.Error(err)
	}
}

// Flushed changes are in the file itself, so that they survive without SQLite's log. A reader of an old state
// does not prevent the flush.
func TestFlush(t *testing.T) {
	t.Parallel()
	w := someState(t)
	want := w.dump()
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	check := func(leaveOut ...string) {
		t.Helper()
		c := &world{t: t, path: copyDir(t, w.path, leaveOut...)}
		c.open()
		if diff := difference(want, c.dump()); diff != "" {
			t.Error(diff)
		}
		if err := c.machine.close(); err != nil {
			t.Error(err)
		}
	}
	check("-shm", "-wal")
	err := w.machine.read(t.Context(), func(r reader) error {
		if _, err := number(r, "SELECT COUNT(*) FROM orgs"); err != nil {
			return err
		}
		w.ok(newOrg("behind-a-reader"))
		return w.Flush()
	})
	if err != nil {
		t.Fatal(err)
	}
	want = w.dump()
	check("-shm")
}

// SQLite's log stays bounded without a flush.
func TestWALIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const writes, each = 40, 1 << 20
	for i := range writes {
		err := w.transact(func(tx *Tx) error {
			return tx.put("INSERT INTO idempotency VALUES ('p', ?, x'', 1, zeroblob(?), 0)", i, each)
		})
		if err != nil {
			t.Fatal(err)
		}
		if size, err := w.db.walBytes(); err != nil || size > checkpointWAL+2*each {
			t.Fatalf("after %d MiB it takes %d bytes, %v", i+1, size, err)
		}
	}
	stored := ask(w, func(r reader) (int64, error) { return number(r, "SELECT SUM(LENGTH(result)) FROM idempotency") })
	if stored != writes*each {
		t.Errorf("%d bytes are stored", stored)
	}
}
