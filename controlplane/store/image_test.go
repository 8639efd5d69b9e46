package store

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/corvo/corvo/tenancy/keyring"
)

func someState(t testing.TB) *world {
	w := newWorld(t)
	if err := w.Configure(at(1), []byte("members")); err != nil {
		t.Fatal(err)
	}
	w.index++
	w.ok(newOrg("acme"), withKey(newNamespace("org_acme", "a"), "key"), newKey(keyring.Namespace, "ns_a", "k1"), frame("ns_a", 1, 2, usageRow("q", "m", 3)))
	return w
}

// An image says where it stands before its first byte, stays what it is while the
// state goes on, may be written again, and makes another machine equal.
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
	var one, two bytes.Buffer
	for _, b := range []*bytes.Buffer{&one, &two} {
		if n, err := i.WriteTo(b); err != nil || n != int64(b.Len()) {
			t.Fatalf("wrote %d of %d, %v", b.Len(), n, err)
		}
	}
	if !bytes.Equal(one.Bytes(), two.Bytes()) {
		t.Error("written again it is another")
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
	if err := other.Restore(&one); err != nil {
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

// A stream that is cut or damaged anywhere is refused, and leaves what was there.
func TestDamagedImage(t *testing.T) {
	t.Parallel()
	data := stream(t, someState(t).machine)
	w := newWorld(t)
	w.ok(newOrg("mine"))
	before := w.dump()
	refuse := func(what string, damaged []byte) {
		t.Helper()
		if err := w.Restore(bytes.NewReader(damaged)); err == nil {
			t.Errorf("%s was taken", what)
		}
		if diff := difference(before, w.dump()); diff != "" {
			t.Fatalf("%s has changed the state: %s", what, diff)
		}
	}
	for _, n := range []int{0, 1, imageHeader - 1, imageHeader, len(data) / 2, len(data) - 4, len(data) - 1} {
		refuse("a cut stream", data[:n])
	}
	for _, n := range []int{0, len(imageMagic), imageHeader + 100, len(data) / 2, len(data) - 5, len(data) - 1} {
		damaged := bytes.Clone(data)
		damaged[n] ^= 1
		refuse("a damaged stream", damaged)
	}
	w.ok(newOrg("goes-on"))
	if err := w.Restore(bytes.NewReader(data)); err != nil {
		t.Error(err)
	}
}

// crashing is a stream that copies a directory, as a crash would leave it, after
// so many bytes and at its end.
type crashing struct {
	io.Reader
	left int
	take func()
}

func (c *crashing) Read(b []byte) (int, error) {
	if c.left <= 0 {
		c.take()
		c.left = 1 << 30
	}
	n, err := c.Reader.Read(b[:min(len(b), max(c.left, 1))])
	c.left -= n
	return n, err
}

// A crash in the middle of a restore leaves the old state; one after it the new
// one. What is left over goes.
func TestCrashInRestore(t *testing.T) {
	t.Parallel()
	source := someState(t)
	data := stream(t, source.machine)
	for _, after := range []int{1, len(data) / 2, len(data)} {
		w := newWorld(t)
		w.ok(newOrg("mine"))
		before := w.dump()
		var crashed string
		in := &crashing{Reader: bytes.NewReader(data), left: after, take: func() { crashed = copyDir(t, w.path) }}
		if after == len(data) {
			in.left = len(data) - 4 // all of the file is there, its checksum is not
		}
		if err := w.Restore(in); err != nil {
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
		// The new file counts once CURRENT names it, with the old one still there.
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

// A founding cut short is begun again; a state whose CURRENT is gone or damaged is
// refused.
func TestDirectory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(newOrg("acme"))
	path := copyDir(t, w.path, "-shm")
	open := func() error {
		m, err := openMachine(path)
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
	m, err := openMachine(fresh)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.close(); err != nil {
		t.Error(err)
	}
}

// What was flushed is in the file itself, so that it survives without SQLite's
// log; a reader that looks at an old state meanwhile does not keep it from that.
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

// SQLite's log does not grow for ever, though nobody flushes.
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
