package replica

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/corvo/corvo/engine/image"
)

func someAnnouncement() announcement {
	return announcement{
		manifest: newManifest(at(ours, 40, 3), []byte("members"), 7),
		parts:    []image.Part{{Name: "000007.sst", Size: 1 << 40, Sum: [32]byte{1, 2}}, {Name: "MANIFEST-000001"}},
	}
}

func mustEncode(t testing.TB, a announcement) []byte {
	t.Helper()
	b, err := a.encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestAnnouncement(t *testing.T) {
	t.Parallel()
	want := someAnnouncement()
	b := mustEncode(t, want)
	if got, err := decodeAnnouncement(b); err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("decoded %+v, %v", got, err)
	}
	for cut := range b {
		if _, err := decodeAnnouncement(b[:cut]); err == nil {
			t.Fatalf("one cut at %d of %d passes", cut, len(b))
		}
	}
	for at := range b {
		damaged := slices.Clone(b)
		damaged[at] ^= 1
		if _, err := decodeAnnouncement(damaged); err == nil {
			t.Fatalf("one damaged at %d of %d passes", at, len(b))
		}
	}
	// A correct checksum does not make the other fields valid.
	for what, change := range map[string]func(b []byte) []byte{
		"cut":          func(b []byte) []byte { return b[:len(b)-1] },
		"longer":       func(b []byte) []byte { return append(b, 0) },
		"many parts":   func(b []byte) []byte { copy(b[8+2+1+16+16+4+7+8:], "\xff\xff\xff\xff"); return b },
		"a long group": func(b []byte) []byte { b[8], b[9] = 0xff, 0xff; return b },
		"a long configuration": func(b []byte) []byte {
			copy(b[8+2+1+16+16:], "\xff\xff\xff\xff")
			return b
		},
	} {
		bad := change(slices.Clone(b[:len(b)-crc32.Size]))
		bad = binary.LittleEndian.AppendUint32(bad, crc32.Checksum(bad, castagnoli))
		if _, err := decodeAnnouncement(bad); err == nil {
			t.Errorf("%s: it passes", what)
		}
	}
}

func TestAnnouncementIsBounded(t *testing.T) {
	t.Parallel()
	a := someAnnouncement()
	a.parts = nil
	for i := range 60_000 {
		a.parts = append(a.parts, image.Part{Name: strings.Repeat("n", 80) + string([]byte{byte('0' + i/10000), byte('0' + i/1000%10), byte('0' + i/100%10), byte('0' + i/10%10), byte('0' + i%10)})})
	}
	left := maxAnnouncement - len(mustEncode(t, a))
	if left < 0 || left > 2<<20 {
		t.Fatalf("%d bytes are left", left)
	}
	a.Configuration = make([]byte, len(a.Configuration)+left)
	if b := mustEncode(t, a); len(b) != maxAnnouncement {
		t.Fatalf("%d bytes", len(b))
	}
	if _, err := decodeAnnouncement(mustEncode(t, a)); err != nil {
		t.Error(err)
	}
	a.Configuration = append(a.Configuration, 0)
	if _, err := a.encode(); err == nil {
		t.Error("one byte too many passes")
	}
	a = someAnnouncement()
	a.parts[1].Name = "../MANIFEST"
	if _, err := a.encode(); err == nil {
		t.Error("a part that lies elsewhere passes")
	}
}

func FuzzManifest(f *testing.F) {
	f.Add(mustEncode(f, someAnnouncement()))
	f.Add(mustEncode(f, announcement{}))
	f.Add([]byte(announcementMagic))
	f.Fuzz(func(t *testing.T, b []byte) {
		// Most inputs would fail at the checksum, so it is corrected.
		if n := len(b) - crc32.Size; n >= 0 {
			b = binary.LittleEndian.AppendUint32(slices.Clone(b[:n]), crc32.Checksum(b[:n], castagnoli))
		}
		a, err := decodeAnnouncement(b)
		if err != nil {
			return
		}
		if again := mustEncode(t, a); !bytes.Equal(again, b) {
			t.Errorf("%x decodes and encodes to %x", b, again)
		}
	})
}
