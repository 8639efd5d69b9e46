package raftlog

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// content is a file without the zeros at its end, because some libraries map files that are mostly empty.
type content struct {
	data []byte
	size int64
}

// files reads a log's directory into a map from path to content.
func files(t *testing.T, dir string) map[string]content {
	t.Helper()
	all := map[string]content{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		all[name] = content{bytes.Clone(bytes.TrimRight(data, "\x00")), int64(len(data))}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// reopen opens a log in a new directory with the given files.
func reopen(t *testing.T, kind Kind, all map[string]content) (Store, error) {
	t.Helper()
	dir := t.TempDir()
	for name, c := range all {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.WriteFile(path, c.data, 0o644), os.Truncate(path, c.size)); err != nil {
			t.Fatal(err)
		}
	}
	return openWith(&Factory{SegmentBytes: MinSegmentBytes, Logger: hclog.NewNullLogger()}, dir, kind)
}

// torn returns the files after a partial write between before and after. Each file has the first bytes of the
// write or, if the library writes its header last, the last bytes. The mark is always the earlier one.
func torn(before, after map[string]content, part float64, headerLast bool) map[string]content {
	all := map[string]content{}
	for name, c := range after {
		old, data := bytes.Clone(before[name].data), bytes.Clone(c.data)
		n := max(len(old), len(data))
		old, data = append(old, make([]byte, n-len(old))...), append(data, make([]byte, n-len(data))...)
		var changed []int
		for i := range data {
			if data[i] != old[i] {
				changed = append(changed, i)
			}
		}
		missing := changed[int(part*float64(len(changed))):]
		if headerLast {
			missing = changed[:len(changed)-int(part*float64(len(changed)))]
		}
		for _, i := range missing {
			data[i] = old[i]
		}
		all[name] = content{data, c.size}
	}
	for _, mark := range []string{markFile, voteFile} {
		if c, ok := before[mark]; ok {
			all[mark] = c
		}
	}
	return all
}

// TestTornWrite crashes in the middle of an unacknowledged write. All earlier entries must be there, and the
// log must continue after them.
func TestTornWrite(t *testing.T) {
	t.Parallel()
	for _, kind := range Kinds() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			dir, kind := t.TempDir(), Kind(kind)
			s := open(t, dir, kind)
			store(t, s, logs(1, 45, 1))
			before := files(t, dir)
			store(t, s, logs(46, 50, 1))
			after := files(t, dir)
			for _, part := range []float64{0, 0.01, 0.3, 0.5, 0.9, 0.99, 0.999} {
				again, err := reopen(t, kind, torn(before, after, part, kind == Bolt))
				if err != nil {
					t.Fatalf("torn at %v: %v", part, err)
				}
				last := lastOf(t, again)
				if last < 45 || last > 50 {
					t.Errorf("torn at %v: the log ends at %d", part, last)
				}
				wantLogs(t, again, logs(1, last, 1))
				store(t, again, logs(last+1, last+20, 2))
				wantLogs(t, again, append(logs(1, last, 1), logs(last+1, last+20, 2)...))
				if err := again.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestDamageIsNeverSilent damages acknowledged content at many places. Opening or reading the log must fail,
// or return every entry; it must never return a different or a shorter log.
func TestDamageIsNeverSilent(t *testing.T) {
	t.Parallel()
	for _, kind := range Kinds() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			dir, kind := t.TempDir(), Kind(kind)
			s := open(t, dir, kind)
			store(t, s, logs(1, 150, 1))
			if err := s.SetUint64([]byte("term"), 7); err != nil {
				t.Fatal(err)
			}
			store(t, s, logs(151, 160, 1))
			whole := files(t, dir)
			noticed := 0
			for name, c := range whole {
				end := len(c.data)
				if end == 0 || filepath.Base(name) == "LOCK" || slices.Contains([]string{markFile, voteFile, kindFile}, name) {
					continue
				}
				for _, at := range []float64{0, 0.05, 0.5, 0.95, 0.999} {
					offset := int(at * float64(end))
					for how, harm := range map[string]content{
						"garbled": {garbled(c.data, offset), c.size},
						"cut":     {c.data[:offset], int64(offset)},
					} {
						if harmed(t, kind, whole, name, harm) {
							noticed++
						} else {
							t.Logf("%s of %s at %d of %d does no harm", how, name, offset, end)
						}
					}
				}
			}
			if noticed == 0 {
				t.Error("no damage was noticed at all")
			}
		})
	}
}

func garbled(data []byte, offset int) []byte {
	data = bytes.Clone(data)
	for i := offset; i < min(len(data), offset+40); i++ {
		data[i] ^= 0x55
	}
	return data
}

// harmed reports whether a log with one replaced file reports damage. If it does not, the log must be
// unchanged.
func harmed(t *testing.T, kind Kind, whole map[string]content, name string, harm content) bool {
	t.Helper()
	all := maps.Clone(whole)
	all[name] = harm
	s, err := reopen(t, kind, all)
	if err != nil {
		return true
	}
	defer s.Close()
	var first error
	for i := uint64(1); i <= 160; i++ {
		var got raft.Log
		if err := s.GetLog(i, &got); err != nil {
			first = fmt.Errorf("entry %d: %w", i, err)
			break
		}
		if got.Index != i || !bytes.Equal(got.Data, logAt(i, 1).Data) {
			t.Errorf("%s: entry %d is another", name, i)
		}
	}
	if last := lastOf(t, s); last != 160 {
		t.Errorf("%s: the log ends at %d", name, last)
	}
	if term, err := s.GetUint64([]byte("term")); err == nil && term != 7 {
		t.Errorf("%s: the term is %d", name, term)
	}
	return first != nil
}

// TestDamagedMark checks that a damaged mark is refused.
func TestDamagedMark(t *testing.T) {
	t.Parallel()
	for _, kind := range Kinds() {
		dir, kind := t.TempDir(), Kind(kind)
		store(t, open(t, dir, kind), logs(1, 10, 1))
		all := files(t, dir)
		all[markFile] = content{garbled(all[markFile].data, 3), markBytes}
		if _, err := reopen(t, kind, all); err == nil {
			t.Errorf("%s: opened with a damaged mark", kind)
		}
		delete(all, markFile)
		s, err := reopen(t, kind, all)
		if err != nil {
			t.Fatalf("%s without its mark: %v", kind, err)
		}
		wantLogs(t, s, logs(1, 10, 1))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLostVote exists because a bolt file has two meta pages, one for each of the last two transactions, and
// falls back to the older one if the newer is damaged. That would revert a vote, and a vote that is cast
// twice elects two leaders.
func TestLostVote(t *testing.T) {
	t.Parallel()
	for kind, name := range map[Kind]string{WAL: "wal-meta.db", Bolt: boltFile} {
		dir := t.TempDir()
		s := open(t, dir, kind)
		store(t, s, logs(1, 3, 1))
		for term := uint64(1); term <= 5; term++ {
			if err := s.SetUint64([]byte("term"), term); err != nil {
				t.Fatal(err)
			}
		}
		refused := 0
		for page := range 2 {
			all := files(t, dir)
			all[name] = content{garbled(all[name].data, page*os.Getpagesize()+16), all[name].size}
			s, err := reopen(t, kind, all)
			if err != nil {
				refused++
				continue
			}
			if term, err := s.GetUint64([]byte("term")); err != nil || term != 5 {
				t.Errorf("%s: term %d, %v", kind, term, err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if refused != 1 {
			t.Errorf("%s: refused %d times, want once, for the newer head", kind, refused)
		}
	}
}
