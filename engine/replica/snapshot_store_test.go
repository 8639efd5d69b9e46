package replica

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/image"
)

func members() raft.Configuration {
	return raft.Configuration{Servers: []raft.Server{{ID: "one", Address: "one"}, {ID: "two", Address: "two"}}}
}

func tapeAt(index, term uint64, ops ...string) *tape {
	return &tape{now: taped{At: at(ours, index, term), Members: raft.EncodeConfiguration(members()), Index: 1, Ops: ops}}
}

func storeOf(t *testing.T, dir string, m *tape) *snapshots {
	t.Helper()
	return newSnapshots(dir, m, ours, func(err error) { t.Error(err) }, slog.New(slog.DiscardHandler))
}

// list returns the names in dir.
func list(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range names {
		names[i] = filepath.Base(names[i])
	}
	return names
}

func TestTheMachineIsTheSnapshot(t *testing.T) {
	t.Parallel()
	s := storeOf(t, t.TempDir(), new(tape))
	if metas, err := s.List(); err != nil || len(metas) != 0 {
		t.Fatalf("an empty machine lists %v, %v", metas, err)
	}
	m := tapeAt(40, 3, "a", "b")
	s = storeOf(t, t.TempDir(), m)
	metas, err := s.List()
	if err != nil || len(metas) != 1 {
		t.Fatalf("%v, %v", metas, err)
	}
	m.now.At.Index = 41 // entries are applied in the meantime
	meta, stream, err := s.Open(metas[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	m.now.At.Index = 42
	data, err := io.ReadAll(stream)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Close(); err != nil {
		t.Fatal(err)
	}
	if meta.Index != 41 || meta.Term != 3 || meta.Size != int64(len(data)) {
		t.Errorf("%d bytes read, meta %+v", len(data), meta)
	}
	if meta.ConfigurationIndex != 1 || len(meta.Configuration.Servers) != 2 {
		t.Errorf("the configuration of %d is %+v", meta.ConfigurationIndex, meta.Configuration)
	}
	a, err := decodeAnnouncement(data)
	if err != nil || a.Index != 41 || len(a.parts) != 3 {
		t.Errorf("it announces %+v, %v", a, err)
	}
	if of, ok := stream.(image.Source); !ok || !slices.Equal(of.Parts(), a.parts) {
		t.Errorf("the transport gets %T", stream)
	}
}

func TestDamagedMembershipIsAnError(t *testing.T) {
	t.Parallel()
	m := tapeAt(40, 3)
	m.now.Members = []byte{0xff, 1}
	if _, err := storeOf(t, t.TempDir(), m).List(); err == nil {
		t.Error("listed")
	}
}

func TestPersistWritesTheManifestLast(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := storeOf(t, dir, tapeAt(40, 3))
	k, err := s.Create(raft.SnapshotVersionMax, 40, 3, members(), 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.(*sink).persisted(at(ours, 39, 3).Position()); err == nil {
		t.Error("a machine behind the snapshot passes")
	}
	if err := k.(*sink).persisted(at(ours, 40, 3).Position()); err != nil {
		t.Fatal(err)
	}
	if got := list(t, dir); len(got) != 0 {
		t.Errorf("before the close there is %v", got)
	}
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	m, err := readManifest(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.newest.Load(); m.Index != 40 || got != 40 {
		t.Errorf("the manifest is of entry %d, the newest snapshot of %d", m.Index, got)
	}
	if m.Term != 3 || m.Group != "g" || m.ConfigurationIndex != 1 {
		t.Errorf("manifest %+v", m)
	}
	if got := fmt.Sprint(list(t, dir)); got != "[manifest.json]" {
		t.Errorf("left behind: %s", got)
	}
}

// deliver sends an image as the transport does: first the missing parts, then the stream that raft reads. It
// returns the bytes of the parts it sent.
func deliver(t *testing.T, from *tape, to *snapshots) (raft.SnapshotSink, int64) {
	t.Helper()
	meta, stream, err := storeOf(t, t.TempDir(), from).Open(imageID)
	if err != nil {
		t.Fatal(err)
	}
	sent := fill(t, stream.(image.Source), to.staging, 1<<20)
	k := announceTo(t, meta, stream, to)
	if err := stream.Close(); err != nil {
		t.Fatal(err)
	}
	return k, sent
}

// fill stores up to limit missing parts.
func fill(t *testing.T, from image.Source, to image.Staging, limit int) (sent int64) {
	t.Helper()
	missing, err := to.Missing(from.Parts())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range missing[:min(limit, len(missing))] {
		r, err := from.Open(p.Name)
		if err == nil {
			err = errors.Join(to.Store(p, r), r.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		sent += p.Size
	}
	return sent
}

// announceTo writes the stream into a sink, as raft does.
func announceTo(t *testing.T, meta *raft.SnapshotMeta, stream io.Reader, to *snapshots) raft.SnapshotSink {
	t.Helper()
	k, err := to.Create(meta.Version, meta.Index, meta.Term, meta.Configuration, meta.ConfigurationIndex, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(k, stream); err != nil || n != meta.Size {
		t.Fatalf("wrote %d bytes of %d, %v", n, meta.Size, err)
	}
	return k
}

func TestReceive(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := tapeAt(10, 1, "old")
	s := storeOf(t, dir, m)
	j, err := newJournal(newMemory(), 1<<20, func(err error) { t.Error(err) })
	if err == nil {
		err = j.StoreLog(&raft.Log{Index: 10, Data: make([]byte, 1000)})
	}
	if err != nil {
		t.Fatal(err)
	}
	r := &Replica{machine: m, snapshots: s, journal: j, failed: make(chan struct{})}
	k, _ := deliver(t, tapeAt(40, 3, "new"), s)
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	meta, stream, err := s.Open(k.ID())
	if err != nil || meta.Index != 40 {
		t.Fatalf("%+v, %v", meta, err)
	}
	if n, err := io.Copy(io.Discard, stream); err != nil || n != meta.Size {
		t.Errorf("the stream has %d bytes, the meta says %d, %v", n, meta.Size, err)
	}
	if err := (fsm{r}).Restore(stream); err != nil {
		t.Fatal(err)
	}
	if err := stream.Close(); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(m.now.Ops, m.Applied().Index, s.newest.Load(), list(t, dir)); got != "[new] 40 40 [manifest.json]" {
		t.Errorf("after the installation: %s", got)
	}
	if m, err := readManifest(dir); err != nil || !m.Received {
		t.Errorf("manifest %+v, %v", m, err)
	}
	if n := j.sinceSnapshot(); n != 0 {
		t.Errorf("%d bytes of log count as not covered", n)
	}
}

// TestReceiveRefuses checks that a refusal at the end of a transfer changes nothing and stops no replica.
func TestReceiveRefuses(t *testing.T) {
	t.Parallel()
	otherGroup := theirs
	otherGroup.Group, otherGroup.Incarnation = "h", ours.Incarnation
	for name, test := range map[string]struct {
		from entry.Applied
		harm func(t *testing.T, k *sink, s *snapshots)
		want string
	}{
		"another history":                   {from: at(theirs, 40, 3), want: "history"},
		"another group":                     {from: at(otherGroup, 40, 3), want: `of group "h"`},
		"an older one":                      {from: at(ours, 9, 1), want: "holds all up to entry 10"},
		"nothing":                           {from: at(ours, 40, 3), harm: func(_ *testing.T, k *sink, _ *snapshots) { k.encoded = nil }, want: "is empty"},
		"a cut one":                         {from: at(ours, 40, 3), harm: func(_ *testing.T, k *sink, _ *snapshots) { k.encoded = k.encoded[:len(k.encoded)-1] }, want: "damaged"},
		"another position than announced":   {from: at(ours, 40, 3), harm: func(_ *testing.T, k *sink, _ *snapshots) { k.manifest.Index = 41 }, want: "announced as of entry 41"},
		"another membership than announced": {from: at(ours, 40, 3), harm: func(_ *testing.T, k *sink, _ *snapshots) { k.manifest.Configuration = nil }, want: "announced"},
		"a part missing": {from: at(ours, 40, 3), harm: func(t *testing.T, _ *sink, s *snapshots) {
			removePart(t, s, "new")
		}, want: "lacks 1 of its 2 parts"},
		"a part damaged before it is looked at": {from: at(ours, 40, 3), harm: func(t *testing.T, _ *sink, s *snapshots) {
			if err := os.WriteFile(s.staging.path(sha256.Sum256([]byte("new"))), []byte("nEw"), 0o600); err != nil {
				t.Fatal(err)
			}
			s.staging.verified = set{} // as after a restart
		}, want: "lacks 1 of its 2 parts"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			m := tapeAt(10, 1, "old")
			s := storeOf(t, dir, m)
			from := tapeAt(test.from.Index, test.from.Term, "new")
			from.now.At = test.from
			k, _ := deliver(t, from, s)
			if test.harm != nil {
				test.harm(t, k.(*sink), s)
			}
			if err := k.Close(); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("refused with %v, want %q", err, test.want)
			}
			if err := k.Cancel(); err != nil {
				t.Error(err)
			}
			if got := fmt.Sprint(m.now.Ops, m.Applied().Index, list(t, dir)); got != "[old] 10 [staging]" {
				t.Errorf("afterwards: %s", got)
			}
		})
	}
}

func removePart(t *testing.T, s *snapshots, of string) {
	t.Helper()
	if err := os.Remove(s.staging.path(sha256.Sum256([]byte(of)))); err != nil {
		t.Fatal(err)
	}
}

func TestSinkIsBounded(t *testing.T) {
	t.Parallel()
	k := &sink{store: storeOf(t, t.TempDir(), tapeAt(10, 1))}
	if _, err := k.Write(make([]byte, maxAnnouncement)); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Write(make([]byte, 1)); err == nil {
		t.Error("one byte too many passes")
	}
}

// TestReceiveInterrupted stops the process at each step of installing a snapshot. Opening the replica must
// finish the installation or drop the snapshot.
func TestReceiveInterrupted(t *testing.T) {
	t.Parallel()
	closed := func(t *testing.T, k raft.SnapshotSink) {
		if err := k.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		name        string
		die         func(t *testing.T, s *snapshots, k raft.SnapshotSink, m *tape)
		want, files string
	}{
		{"when all parts are there", func(*testing.T, *snapshots, raft.SnapshotSink, *tape) {}, "[old] 10", "[staging]"},
		{"while the announcement is written", func(t *testing.T, s *snapshots, k raft.SnapshotSink, _ *tape) {
			if err := os.WriteFile(s.receivedPath(k.(*sink).manifest)+".tmp", k.(*sink).encoded[:9], 0o644); err != nil {
				t.Fatal(err)
			}
		}, "[old] 10", "[staging]"},
		{"before the machine takes the parts", func(t *testing.T, _ *snapshots, k raft.SnapshotSink, _ *tape) {
			closed(t, k)
		}, "[new] 40", "[manifest.json]"},
		{"and a part is gone", func(t *testing.T, s *snapshots, k raft.SnapshotSink, _ *tape) {
			closed(t, k)
			removePart(t, s, "new")
		}, "[old] 10", "[staging]"},
		{"and a part has rotted", func(t *testing.T, s *snapshots, k raft.SnapshotSink, _ *tape) {
			closed(t, k)
			if err := os.WriteFile(s.staging.path(sha256.Sum256([]byte("new"))), []byte("nEw"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "[old] 10", "[staging]"},
		{"after the machine has taken the parts", func(t *testing.T, s *snapshots, k raft.SnapshotSink, m *tape) {
			closed(t, k)
			if err := m.Restore(s.staging.source(mustDecode(t, k), ours)); err != nil {
				t.Fatal(err)
			}
		}, "[new] 40", "[manifest.json]"},
		{"after the manifest", func(t *testing.T, s *snapshots, k raft.SnapshotSink, m *tape) {
			closed(t, k)
			a := mustDecode(t, k)
			if err := errors.Join(m.Restore(s.staging.source(a, ours)), s.write(a.manifest)); err != nil {
				t.Fatal(err)
			}
		}, "[new] 40", "[manifest.json]"},
		{"after the announcement is gone", func(t *testing.T, s *snapshots, k raft.SnapshotSink, m *tape) {
			closed(t, k)
			a := mustDecode(t, k)
			err := errors.Join(m.Restore(s.staging.source(a, ours)), s.write(a.manifest), os.Remove(s.receivedPath(a.manifest)))
			if err != nil {
				t.Fatal(err)
			}
		}, "[new] 40", "[manifest.json staging]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			m := tapeAt(10, 1, "old")
			s := storeOf(t, dir, m)
			k, _ := deliver(t, tapeAt(40, 3, "new"), s)
			test.die(t, s, k, m)
			again := storeOf(t, dir, m)
			if mf, err := readManifest(dir); err != nil {
				t.Fatal(err)
			} else {
				again.newest.Store(mf.Index)
			}
			if err := again.resume(); err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(m.now.Ops, " ", m.Applied().Index); got != test.want {
				t.Errorf("after opening: %s, want %s", got, test.want)
			}
			if got := fmt.Sprint(list(t, dir)); got != test.files {
				t.Errorf("left behind: %s, want %s", got, test.files)
			}
		})
	}
}

func mustDecode(t *testing.T, k raft.SnapshotSink) announcement {
	t.Helper()
	a, err := decodeAnnouncement(k.(*sink).encoded)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestReceiveRefusesAFalseClaim checks that the replica refuses parts whose content is of another history
// than the announcement says.
func TestReceiveRefusesAFalseClaim(t *testing.T) {
	t.Parallel()
	m := tapeAt(10, 1, "old")
	s := storeOf(t, t.TempDir(), m)
	other := tapeAt(40, 3)
	other.now.At.Incarnation = theirs.Incarnation
	k, _ := deliver(t, other, s)
	a := mustDecode(t, k)
	a.Incarnation = ours.Incarnation
	k.(*sink).encoded = mustEncode(t, a)
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.resume(); err == nil || fmt.Sprint(m.now.Ops) != "[old]" {
		t.Errorf("took over %v, %v", m.now, err)
	}
}

// TestTheManifestNeverGoesBack installs a snapshot from another replica while a snapshot of the machine is
// being taken. The older manifest must not replace the newer one, because its log may be gone.
func TestTheManifestNeverGoesBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := tapeAt(20, 1, "old")
	s := storeOf(t, dir, m)
	own, err := s.Create(raft.SnapshotVersionMax, 20, 1, members(), 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := own.(*sink).persisted(m.Applied().Position()); err != nil {
		t.Fatal(err)
	}
	k, _ := deliver(t, tapeAt(40, 3, "new"), s)
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := s.readReceived(k.ID())
	if err == nil {
		err = errors.Join(s.install(got), own.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	if m, err := readManifest(dir); err != nil || m.Index != 40 || s.newest.Load() != 40 {
		t.Errorf("the manifest is of entry %d, %v", m.Index, err)
	}
}
