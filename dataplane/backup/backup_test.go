package backup

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/entry"
)

// shard is a store whose records the tests write themselves.
type shard struct {
	*state.Store
	number int
	index  uint64
}

func openShard(t testing.TB, number int) *shard {
	t.Helper()
	s, err := state.Open(t.TempDir(), state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	x := &shard{Store: s, number: number}
	x.entry(t, func(*state.Tx) error { return nil })
	return x
}

func (x *shard) incarnation() entry.Incarnation { return entry.Incarnation{byte(x.number) + 1} }

// entry applies an entry.
func (x *shard) entry(t testing.TB, change func(tx *state.Tx) error) {
	t.Helper()
	x.index++
	at := entry.Applied{Group: fmt.Sprintf("default/%d", x.number), Incarnation: x.incarnation(), Index: x.index, Term: 1}
	tx := x.Begin(at, entry.Header{Incarnation: x.incarnation(), ClockNs: int64(x.index)})
	if err := errors.Join(change(tx), tx.Commit()); err != nil {
		t.Fatal(err)
	}
}

func (x *shard) send(t testing.TB, to, bytes int) {
	t.Helper()
	x.entry(t, func(tx *state.Tx) error { return tx.Send(uint32(to), 1, make([]byte, bytes)) })
}

func (x *shard) receive(t testing.TB, from *shard, last uint64) {
	t.Helper()
	x.entry(t, func(tx *state.Tx) error { return tx.PutInbox(uint32(from.number), from.incarnation(), last) })
}

func (x *shard) trim(t testing.TB, to int, upTo uint64) {
	t.Helper()
	x.entry(t, func(tx *state.Tx) error { return tx.TrimOutbox(uint32(to), upTo) })
}

// file returns a backup of shards.
func file(t testing.TB, shards ...*shard) []byte {
	t.Helper()
	var stores []*state.Store
	for _, x := range shards {
		stores = append(stores, x.Store)
	}
	cut, err := Take(t.Context(), stores)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	_, err = cut.Write(&b, "default", "v1.2.3", time.Unix(1e9, 5))
	if err := errors.Join(err, cut.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestABackupHoldsWhatItWasTakenOf(t *testing.T) {
	t.Parallel()
	a, b := openShard(t, 0), openShard(t, 1)
	for range 5 {
		a.send(t, 1, partBytes/2) // several parts
	}
	b.receive(t, a, 2)
	written := file(t, a, b)
	r, err := NewReader(iotest.OneByteReader(bytes.NewReader(written)))
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range []*shard{a, b} {
		if s := r.Header.Shards[i]; s.Index != x.index || s.Incarnation != x.incarnation() || s.Group != fmt.Sprintf("default/%d", i) {
			t.Errorf("shard %d is said to be %+v", i, s)
		}
		v := x.Snapshot()
		defer v.Close()
		var want, got []string
		for kv, err := range v.Export() {
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, fmt.Sprintf("%x=%x", kv.Key, kv.Value))
		}
		for kv, err := range r.Shard(i) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprintf("%x=%x", kv.Key, kv.Value))
		}
		if len(want) == 0 || strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("shard %d: %d pairs were read, %d were there", i, len(got), len(want))
		}
	}
	if trailer, err := r.End(); err != nil || trailer.Pairs[0] < 6 {
		t.Errorf("the trailer is %+v, %v", trailer, err)
	}
}

// The test changes each byte of a file, cuts it at every length and appends data. Verify
// must refuse all of these files.
func TestADamagedBackupIsRefused(t *testing.T) {
	t.Parallel()
	good := file(t, openShard(t, 0), openShard(t, 1))
	if _, _, err := Verify(bytes.NewReader(good)); err != nil {
		t.Fatal(err)
	}
	refused := func(what string, bad []byte, says string) {
		t.Helper()
		if _, _, err := Verify(bytes.NewReader(bad)); api.CodeOf(err) != api.ValidationError || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for i := range good {
		refused(fmt.Sprintf("cut after %d of %d bytes", i, len(good)), good[:i], "")
		bad := bytes.Clone(good)
		bad[i] ^= 0x20
		refused(fmt.Sprintf("byte %d of %d changed", i, len(good)), bad, "")
	}
	refused("more behind it", append(bytes.Clone(good), 0), "follows")
	refused("something else", []byte("PK\x03\x04 some archive"), "admin backup")
	cause := errors.New("the disk is broken")
	if _, _, err := Verify(io.MultiReader(bytes.NewReader(good[:len(good)/2]), iotest.ErrReader(cause))); !errors.Is(err, cause) {
		t.Errorf("an error of the disk became %v", err)
	}
}

// forged returns a file with right hashes and arbitrary parts.
func forged(t testing.TB, header any, parts ...func(w *writer) error) []byte {
	t.Helper()
	var b bytes.Buffer
	b.WriteString(magic)
	w := &writer{to: &b, chain: newChain()}
	err := w.document(kindHeader, header)
	for _, part := range parts {
		err = errors.Join(err, part(w))
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func pairs(shard uint32, keys ...string) func(*writer) error {
	return func(w *writer) error {
		var payload []byte
		for _, key := range keys {
			payload = appendPair(payload, state.KV{Key: []byte(key), Value: []byte("v")})
		}
		return w.part(kindPairs, shard, payload)
	}
}

func trailer(bytes uint64, counts ...uint64) func(*writer) error {
	return func(w *writer) error { return w.document(kindTrailer, Trailer{Pairs: counts, Bytes: bytes}) }
}

func raw(k kind, payload string) func(*writer) error {
	return func(w *writer) error { return w.part(k, 0, []byte(payload)) }
}

// The files have right hashes but contents that our binaries never write.
func TestAForgedBackupIsRefused(t *testing.T) {
	t.Parallel()
	h := Header{Format: Format, FeatureLevel: 1, Version: "v1", Namespace: "default", Created: time.Unix(1e9, 0).UTC(), Shards: []Shard{
		{Group: "default/0", Index: 1, Term: 1}, {Group: "default/1", Index: 1, Term: 1},
	}}
	if _, _, err := Verify(bytes.NewReader(forged(t, h, pairs(0, "a", "b"), pairs(0, "c"), pairs(1, "a"), trailer(8, 3, 1)))); err != nil {
		t.Fatal(err)
	}
	changed := func(change func(h *Header)) Header {
		other := h
		other.Shards = append([]Shard(nil), h.Shards...)
		change(&other)
		return other
	}
	for name, c := range map[string]struct {
		bytes []byte
		code  api.Code
		says  string
	}{
		"keys out of order":          {forged(t, h, pairs(0, "b", "a"), pairs(1, "a"), trailer(6, 2, 1)), api.ValidationError, "order"},
		"a key twice":                {forged(t, h, pairs(0, "a"), pairs(0, "a"), pairs(1, "a"), trailer(6, 2, 1)), api.ValidationError, "order"},
		"shards out of order":        {forged(t, h, pairs(1, "a"), pairs(0, "a"), trailer(4, 1, 1)), api.ValidationError, ""},
		"a shard too many":           {forged(t, h, pairs(0, "a"), pairs(1, "a"), pairs(2, "a"), trailer(6, 1, 1)), api.ValidationError, "place"},
		"a shard that is empty":      {forged(t, h, pairs(0, "a"), trailer(2, 1, 0)), api.ValidationError, "empty"},
		"a count that is wrong":      {forged(t, h, pairs(0, "a"), pairs(1, "a"), trailer(4, 1, 2)), api.ValidationError, "counts"},
		"a size that is wrong":       {forged(t, h, pairs(0, "a"), pairs(1, "a"), trailer(5, 1, 1)), api.ValidationError, "counts"},
		"no trailer":                 {forged(t, h, pairs(0, "a"), pairs(1, "a")), api.ValidationError, "truncated"},
		"pairs behind the trailer":   {forged(t, h, pairs(0, "a"), pairs(1, "a"), trailer(4, 1, 1), pairs(1, "b")), api.ValidationError, "follows"},
		"a pair beyond its part":     {forged(t, h, raw(kindPairs, "\x05ab")), api.ValidationError, "beyond"},
		"a pair without a key":       {forged(t, h, raw(kindPairs, "\x00\x01v")), api.ValidationError, "no key"},
		"a part of an unknown kind":  {forged(t, h, raw(9, "x")), api.ValidationError, "place"},
		"a part without pairs":       {forged(t, h, raw(kindPairs, "")), api.ValidationError, "place"},
		"a second header":            {forged(t, h, raw(kindHeader, "{}")), api.ValidationError, "place"},
		"a trailer that is no JSON":  {forged(t, h, pairs(0, "a"), pairs(1, "a"), raw(kindTrailer, "x")), api.ValidationError, "trailer"},
		"a header with other fields": {forged(t, map[string]any{"format": 1, "more": 2}), api.ValidationError, "header"},
		"no shards":                  {forged(t, changed(func(h *Header) { h.Shards = nil })), api.ValidationError, "0 shards"},
		"a store at no entry":        {forged(t, changed(func(h *Header) { h.Shards[1].Index = 0 })), api.ValidationError, "shard 1"},
		"another group's store":      {forged(t, changed(func(h *Header) { h.Shards[1].Group = "default/0" })), api.ValidationError, "shard 1"},
		"a newer format":             {forged(t, changed(func(h *Header) { h.Format = Format + 1; h.Version = "v9.8.7" })), api.Unsupported, "v9.8.7"},
		"a newer format with fields": {forged(t, map[string]any{"format": 7, "version": "v9.8.7", "compression": "zstd"}), api.Unsupported, "v9.8.7"},
	} {
		if _, _, err := Verify(bytes.NewReader(c.bytes)); api.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A part at the bound is read, and one above it is refused.
func TestTheLengthOfAPartIsBounded(t *testing.T) {
	t.Parallel()
	for length, says := range map[uint32]string{maxPartBytes: "truncated", maxPartBytes + 1: "has a length of"} {
		b := append([]byte(magic), byte(kindHeader), 0, 0, 0, 0)
		b = append(binary.LittleEndian.AppendUint32(b, length), make([]byte, 100)...)
		if _, _, err := Verify(bytes.NewReader(b)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("a part of %d bytes: %v", length, err)
		}
	}
}

// Take must make a cut consistent whose stores were frozen at different times.
func TestACutIsOfOneMoment(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]struct {
		late int // the shard whose snapshot is older than the change
		do   func(t *testing.T, a, b *shard)
	}{
		"received and not yet sent": {0, func(t *testing.T, a, b *shard) {
			a.send(t, 1, 10)
			b.receive(t, a, 1)
		}},
		"forgotten and not yet received": {1, func(t *testing.T, a, b *shard) {
			a.send(t, 1, 10)
			b.receive(t, a, 1)
			a.trim(t, 1, 1)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shards := []*shard{openShard(t, 0), openShard(t, 1)}
			stores := []*state.Store{shards[0].Store, shards[1].Store}
			late, other := change.late, 1-change.late
			c := &Cut{shards: make([]*state.Snapshot, 2)}
			c.shards[late] = stores[late].Snapshot()
			change.do(t, shards[0], shards[1])
			c.shards[other] = stores[other].Snapshot()
			if got, err := c.late(); got != late || err != nil {
				t.Fatalf("shard %d is late, %v; want %d", got, err, late)
			}
			if err := c.settle(t.Context(), stores); err != nil {
				t.Fatal(err)
			}
			if got, err := c.late(); got >= 0 || err != nil {
				t.Errorf("shard %d is late still, %v", got, err)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	// Messages received from an earlier history of the sender do not count.
	a, b := openShard(t, 0), openShard(t, 1)
	b.entry(t, func(tx *state.Tx) error { return tx.PutInbox(0, entry.Incarnation{9}, 7) })
	if _, _, err := Verify(bytes.NewReader(file(t, a, b))); err != nil {
		t.Error(err)
	}
}

// Take must return an error for a store that does not advance, and not wait for ever.
func TestACutThatCannotBeIsRefused(t *testing.T) {
	t.Parallel()
	a, b := openShard(t, 0), openShard(t, 1)
	b.receive(t, a, 3) // a has not sent it
	c := &Cut{shards: []*state.Snapshot{a.Snapshot(), b.Snapshot()}}
	defer c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := c.settle(ctx, []*state.Store{a.Store, b.Store})
	if api.CodeOf(err) != api.ViewBehind || !strings.Contains(err.Error(), "shard 0") {
		t.Errorf("it answers %v", err)
	}
}

// FuzzVerify reads arbitrary bytes as a backup. A refusal must be typed and short. An accepted
// file must contain its header as this package would write it.
func FuzzVerify(f *testing.F) {
	a, b := openShard(f, 0), openShard(f, 1)
	a.send(f, 1, 100)
	f.Add(file(f, a))
	f.Add(file(f, a, b))
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, data []byte) {
		header, got, err := Verify(bytes.NewReader(data))
		if err != nil {
			var refusal *api.Error
			if !errors.As(err, &refusal) || len(refusal.Message) > 4096 {
				t.Errorf("refused by %v", err)
			}
			return
		}
		if text, err := json.Marshal(header); err != nil || !bytes.Contains(data, text) || len(got.Pairs) != len(header.Shards) {
			t.Errorf("read %s %+v, %v", text, got, err)
		}
	})
}
