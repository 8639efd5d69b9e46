package raftlog

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/raft-wal/types"
)

// paper is a disk of one file that counts its syncs.
type paper struct {
	walDisk
	bytes []byte
	syncs int
}

func (p *paper) Create(string, string, uint64) (types.WritableFile, error) { return p, nil }
func (p *paper) OpenWriter(string, string) (types.WritableFile, error)     { return p, nil }
func (p *paper) ReadAt(to []byte, at int64) (int, error)                   { return copy(to, p.bytes[at:]), nil }
func (p *paper) SyncDir(string) error                                      { return nil }
func (p *paper) SyncData(types.WritableFile) error                         { return p.Sync() }
func (p *paper) Close() error                                              { return nil }

func (p *paper) Sync() error {
	p.syncs++
	return nil
}

func (p *paper) WriteAt(from []byte, at int64) (int, error) {
	if end := int(at) + len(from); end > len(p.bytes) {
		p.bytes = append(p.bytes, make([]byte, end-len(p.bytes))...)
	}
	return copy(p.bytes[at:], from), nil
}

// TestSegmentsArePreparedAhead checks that a segment has zeros ahead of small writes and never beyond its
// size, that written content stays, and that large writes get no zeros.
func TestSegmentsArePreparedAhead(t *testing.T) {
	t.Parallel()
	const size = 3 * aheadBytes
	disk := &paper{}
	f, err := prepared{disk}.Create("", "", size)
	if err != nil {
		t.Fatal(err)
	}
	var want []byte
	write := func(n int) {
		t.Helper()
		p := bytes.Repeat([]byte{byte(1 + len(want)%255)}, n)
		if n, err := f.WriteAt(p, int64(len(want))); err != nil || n != len(p) {
			t.Fatalf("%d, %v", n, err)
		}
		want = append(want, p...)
		if !bytes.Equal(disk.bytes[:len(want)], want) || len(bytes.Trim(disk.bytes[len(want):], "\x00")) > 0 {
			t.Fatal("the file is not what was written, and zeros")
		}
	}
	write(100)
	if len(disk.bytes) != 100+aheadBytes {
		t.Errorf("%d bytes after the first write", len(disk.bytes))
	}
	write(largeWrite / 2)
	if len(disk.bytes) != 100+aheadBytes {
		t.Errorf("%d bytes, though there were zeros left", len(disk.bytes))
	}
	write(aheadBytes)
	if len(disk.bytes) != len(want) {
		t.Errorf("%d bytes are ahead of a large write", len(disk.bytes)-len(want))
	}
	for len(want) < size {
		write(largeWrite - 1)
		if len(want) <= size && len(disk.bytes) > size {
			t.Fatalf("%d bytes of %d", len(disk.bytes), size)
		}
	}
	write(10) // an entry larger than the remaining space
	if len(disk.bytes) != len(want) {
		t.Errorf("%d bytes are ahead behind the end", len(disk.bytes)-len(want))
	}
	if err := f.Sync(); err != nil || disk.syncs != 1 {
		t.Errorf("%v, %d syncs", err, disk.syncs)
	}
}

// TestATailIsPreparedAgain opens a tail again. The bytes after the tail must be cleared, and the bytes before
// its end must stay.
func TestATailIsPreparedAgain(t *testing.T) {
	t.Parallel()
	disk := &paper{bytes: bytes.Repeat([]byte{7}, 1000)}
	f, err := prepared{disk}.OpenWriter("", "")
	if err != nil {
		t.Fatal(err)
	}
	f.(*preparedFile).size = 800
	if _, err := f.WriteAt([]byte{1, 2, 3}, 400); err != nil {
		t.Fatal(err)
	}
	for _, part := range []struct {
		from, to int
		holds    byte
	}{{0, 400, 7}, {402, 403, 3}, {403, 800, 0}, {800, 1000, 7}} {
		if diff := cmp.Diff(bytes.Repeat([]byte{part.holds}, part.to-part.from), disk.bytes[part.from:part.to]); diff != "" {
			t.Errorf("bytes %d to %d (-want +got):\n%s", part.from, part.to, diff)
		}
	}
}
