package replica

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"
)

func members() raft.Configuration {
	return raft.Configuration{Servers: []raft.Server{{ID: "one", Address: "one"}, {ID: "two", Address: "two"}}}
}

func tapeAt(index, term uint64, ops ...string) *tape {
	return &tape{now: taped{At: at(ours, index, term), Members: raft.EncodeConfiguration(members()), Index: 1, Ops: ops}}
}

func storeOf(t *testing.T, dir string, m *tape) *snapshots {
	t.Helper()
	return &snapshots{dir: dir, machine: m, identity: ours, fail: func(err error) { t.Error(err) }}
}

// list is the names in dir.
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
	m.now.At.Index = 41 // apply goes on
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
	if meta.Index != 41 || meta.Term != 3 || meta.Size != int64(len(data)) || meta.ConfigurationIndex != 1 || len(meta.Configuration.Servers) != 2 {
		t.Errorf("%d bytes read, meta %+v", len(data), meta)
	}
	// A reader that gives up leaves nothing running: goleak watches.
	if _, stream, err = s.Open(imageID); err != nil {
		t.Fatal(err)
	}
	if err := stream.Close(); err != nil {
		t.Error(err)
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
	if err != nil || m.Index != 40 || m.Term != 3 || m.Group != "g" || m.ConfigurationIndex != 1 || s.newest.Load() != 40 {
		t.Errorf("manifest %+v, %v", m, err)
	}
	if got := fmt.Sprint(list(t, dir)); got != "[manifest.json]" {
		t.Errorf("left behind: %s", got)
	}
}

// send streams the image of one machine into the store of another.
func send(t *testing.T, from *tape, to *snapshots) raft.SnapshotSink {
	t.Helper()
	meta, stream, err := storeOf(t, t.TempDir(), from).Open(imageID)
	if err != nil {
		t.Fatal(err)
	}
	k, err := to.Create(meta.Version, meta.Index, meta.Term, meta.Configuration, meta.ConfigurationIndex, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(k, stream); err != nil {
		t.Fatal(err)
	}
	if err := stream.Close(); err != nil {
		t.Fatal(err)
	}
	return k
}

func TestReceive(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := tapeAt(10, 1, "old")
	s := storeOf(t, dir, m)
	r := &Replica{machine: m, snapshots: s, failed: make(chan struct{})}
	k := send(t, tapeAt(40, 3, "new"), s)
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	meta, stream, err := s.Open(k.ID())
	if err != nil || meta.Index != 40 {
		t.Fatalf("%+v, %v", meta, err)
	}
	if err := (fsm{r}).Restore(stream); err != nil {
		t.Fatal(err)
	}
	if err := stream.Close(); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(m.now.Ops, m.Applied().Index, s.newest.Load(), list(t, dir)); got != "[new] 40 40 [manifest.json]" {
		t.Errorf("after the takeover: %s", got)
	}
}

func TestReceiveRefusesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := storeOf(t, dir, tapeAt(10, 1))
	k, err := s.Create(raft.SnapshotVersionMax, 40, 3, members(), 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Close(); err == nil {
		t.Error("an empty stream passes for a snapshot")
	}
	k = send(t, tapeAt(40, 3), s)
	if err := k.Cancel(); err != nil {
		t.Fatal(err)
	}
	if got := list(t, dir); len(got) != 0 {
		t.Errorf("left behind: %v", got)
	}
}

// The process dies at each step of taking a snapshot over; opening finishes it
// or forgets it.
func TestReceiveInterrupted(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		die  func(t *testing.T, s *snapshots, k raft.SnapshotSink, m *tape)
		want string
	}{
		{"while it is written", func(*testing.T, *snapshots, raft.SnapshotSink, *tape) {}, "[old] 10"},
		{"before its manifest", func(t *testing.T, _ *snapshots, k raft.SnapshotSink, _ *tape) {
			name := k.(*sink).file.Name()
			if err := os.Rename(name, name[:len(name)-len(".tmp")]); err != nil {
				t.Fatal(err)
			}
		}, "[old] 10"},
		{"before the machine reads it", func(t *testing.T, _ *snapshots, k raft.SnapshotSink, _ *tape) {
			if err := k.Close(); err != nil {
				t.Fatal(err)
			}
		}, "[new] 40"},
		{"after the machine has read it", func(t *testing.T, s *snapshots, k raft.SnapshotSink, m *tape) {
			if err := k.Close(); err != nil {
				t.Fatal(err)
			}
			_, stream, err := s.Open(k.ID())
			if err == nil {
				err = errors.Join(m.Restore(stream), stream.Close())
			}
			if err != nil {
				t.Fatal(err)
			}
		}, "[new] 40"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			m := tapeAt(10, 1, "old")
			s := storeOf(t, dir, m)
			k := send(t, tapeAt(40, 3, "new"), s)
			test.die(t, s, k, m)
			again := storeOf(t, dir, m)
			if err := again.resume(); err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(m.now.Ops, " ", m.Applied().Index); got != test.want {
				t.Errorf("after opening: %s, want %s", got, test.want)
			}
			wantFiles := "[]"
			if m.Applied().Index == 40 {
				wantFiles = "[manifest.json]"
			}
			if got := fmt.Sprint(list(t, dir)); got != wantFiles {
				t.Errorf("left behind: %s", got)
			}
			_ = k.Cancel() // give the file back; what it says of a closed one is no matter
		})
	}
}

// A stream that holds another history must not become this replica's.
func TestReceiveRefusesAnotherHistory(t *testing.T) {
	t.Parallel()
	m := tapeAt(10, 1)
	s := storeOf(t, t.TempDir(), m)
	other := tapeAt(40, 3)
	other.now.At.Incarnation = theirs.Incarnation
	k := send(t, other, s)
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.resume(); err == nil {
		t.Error("took over another history")
	}
}
