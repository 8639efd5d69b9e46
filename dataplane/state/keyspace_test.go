package state

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/corvo/corvo/dataplane/job"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// TestKeysAreGolden pins the table of keys and one key of each kind, because a change there makes existing
// stores unreadable.
func TestKeysAreGolden(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i, space := range keyspaces {
		key := space.sample()
		if key[0] != space.prefix {
			t.Errorf("the sample of %s begins with %#x", space.name, key[0])
		}
		if i > 0 && keyspaces[i-1].prefix >= space.prefix {
			t.Errorf("the table is not in order at %s", space.name)
		}
		fmt.Fprintf(&b, "%02x %-13s | %-36s | %-45s | %x\n", space.prefix, space.name, space.layout, space.value, key)
	}
	const path = "testdata/keys.golden"
	if *rewrite {
		must(t, os.MkdirAll("testdata", 0o755))
		must(t, os.WriteFile(path, []byte(b.String()), 0o644))
	}
	want, err := os.ReadFile(path)
	must(t, err)
	if b.String() != string(want) {
		t.Errorf("keys have changed; they are permanent (-rewrite only for a new row):\n%s", b.String())
	}
}

var (
	anyID     = rapid.Custom(func(t *rapid.T) job.ID { return job.ID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id")) })
	anyQueue  = rapid.StringMatching(`[A-Za-z0-9._:-]{1,8}`)
	anyNumber = rapid.OneOf(rapid.Uint64(), rapid.Uint64Range(0, 3), rapid.Just(uint64(math.MaxUint64)))
	anyTime   = rapid.OneOf(rapid.Int64(), rapid.Int64Range(-2, 2), rapid.SampledFrom([]int64{math.MinInt64, math.MaxInt64}))
	anyClass  = rapid.Custom(func(t *rapid.T) TimerClass {
		return TimerClass(rapid.Uint8Range(1, timerClasses-1).Draw(t, "class"))
	})
)

func TestKeysDecode(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		id, number := anyID.Draw(t, "id"), anyNumber.Draw(t, "number")
		ready := readyKey{anyQueue.Draw(t, "queue"), rapid.Byte().Draw(t, "priority"), number}
		if got, err := decodeReadyKey(appendReadyKey(nil, ready.queue, ready.priority, ready.number)); err != nil || got != ready {
			t.Errorf("ready key: %v, %v", got, err)
		}
		tm := timer{anyClass.Draw(t, "class"), anyTime.Draw(t, "due")}
		if got, of, err := decodeTimerKey(appendTimerKey(nil, tm, id)); err != nil || got != tm || of != id {
			t.Errorf("timer key: %v, %x, %v", got, of, err)
		}
		settled := anyTime.Draw(t, "settled")
		if at, of, err := decodeSettledKey(appendSettledKey(nil, ready.queue, job.Dead, settled, id)); err != nil || at != settled || of != id {
			t.Errorf("key of a settled job: %d, %x, %v", at, of, err)
		}
		if got, err := decodeJobKey(appendJobKey(nil, id)); err != nil || got != id {
			t.Errorf("job key: %v, %v", got, err)
		}
		kind := job.BlobKind(rapid.Uint8Range(0, uint8(job.BlobKinds)-1).Draw(t, "kind"))
		if of, got, err := decodeBlobKey(appendBlobKey(nil, id, kind)); err != nil || of != id || got != kind {
			t.Errorf("blob key: %v, %v, %v", of, got, err)
		}
		attempt := rapid.Uint32().Draw(t, "attempt")
		if of, got, err := decodeErrorKey(appendErrorKey(nil, id, attempt)); err != nil || of != id || got != attempt {
			t.Errorf("error key: %v, %v, %v", of, got, err)
		}
		if got, err := decodeFeedKey(appendFeedKey(nil, number)); err != nil || got != number {
			t.Errorf("feed key: %v, %v", got, err)
		}
		if got, err := decodeUsageKey(appendUsageKey(nil, number)); err != nil || got != number {
			t.Errorf("usage key: %v, %v", got, err)
		}
		shard := rapid.Uint32().Draw(t, "shard")
		if got, err := decodeShardKey(appendShardKey(nil, prefixInbox, shard), prefixInbox); err != nil || got != shard {
			t.Errorf("inbox key: %v, %v", got, err)
		}
		if to, got, err := decodeOutgoingKey(appendOutgoingKey(nil, shard, number)); err != nil || to != shard || got != number {
			t.Errorf("outgoing key: %v, %v, %v", to, got, err)
		}
		if got, err := decodeForwardKey(appendForwardKey(nil, id)); err != nil || got != id {
			t.Errorf("forward key: %v, %v", got, err)
		}
	})
}

// TestKeysSort checks that ready keys sort by (queue, priority, number), with no queue's keys among
// another's, and timers by (class, time).
func TestKeysSort(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		type row struct {
			queue    string
			priority uint8
			number   uint64
		}
		draw := func(name string) (row, []byte) {
			r := row{anyQueue.Draw(t, name), rapid.Uint8Range(0, 2).Draw(t, "priority"), anyNumber.Draw(t, "number")}
			return r, appendReadyKey(nil, r.queue, r.priority, r.number)
		}
		a, aKey := draw("a")
		b, bKey := draw("b")
		if a.queue == b.queue {
			want := slices.Compare([]uint64{uint64(a.priority), a.number}, []uint64{uint64(b.priority), b.number})
			if bytes.Compare(aKey, bKey) != want {
				t.Errorf("%v and %v do not sort as their keys", a, b)
			}
		} else if lower, upper := appendReadyKey(nil, a.queue, 0, 0), appendReadyKey(nil, a.queue, 3, 0); bytes.Compare(lower, bKey) <= 0 && bytes.Compare(bKey, upper) < 0 {
			t.Errorf("%v lies among the keys of queue %q", b, a.queue)
		}
		s, u := timer{anyClass.Draw(t, "class"), anyTime.Draw(t, "due")}, timer{anyClass.Draw(t, "class"), anyTime.Draw(t, "due")}
		want := slices.Compare([]int64{int64(s.class), s.dueNs}, []int64{int64(u.class), u.dueNs})
		if want != 0 && bytes.Compare(appendTimerKey(nil, s, sampleID), appendTimerKey(nil, u, sampleID)) != want {
			t.Errorf("%v and %v do not sort as their keys", s, u)
		}
		key := appendSettledKey(nil, a.queue, job.Dead, s.dueNs, sampleID)
		if want := cmp.Compare(s.dueNs, u.dueNs); want != 0 && bytes.Compare(key, appendSettledKey(nil, a.queue, job.Dead, u.dueNs, sampleID)) != want {
			t.Errorf("jobs that settled at %d and %d do not sort as their keys", s.dueNs, u.dueNs)
		}
		inside := bytes.Compare(settledBound(b.queue, job.Dead, math.MinInt64), key) <= 0 && bytes.Compare(key, settledEnd(b.queue, job.Dead)) < 0
		if inside != (a.queue == b.queue) {
			t.Errorf("of a settled job of queue %q it is said that it lies among those of %q: %v", a.queue, b.queue, inside)
		}
	})
}

func TestBadKeysAreRefused(t *testing.T) {
	t.Parallel()
	for _, key := range [][]byte{nil, {prefixReady}, {prefixTimer, 3}, {prefixJob, 1}, {prefixBlob}, {prefixError}, {prefixFeed, 0}, {prefixUsage, 0}, {prefixOutbox, 0}, {prefixOutgoing, 0}, {prefixForward, 0}, {prefixSettled, 0},
		appendBlobKey(nil, sampleID, job.BlobKinds), append(appendJobKey(nil, sampleID), 1),
		append(appendTimerKey(nil, timer{TimerLease, 1}, sampleID)[:10:10], append([]byte{9}, sampleID[:]...)...)} {
		if _, err := decodeReadyKey(key); err == nil {
			t.Errorf("%x was taken for a ready key", key)
		}
		if _, _, err := decodeTimerKey(key); err == nil {
			t.Errorf("%x was taken for a timer key", key)
		}
		if _, _, err := decodeSettledKey(key); err == nil {
			t.Errorf("%x was taken for the key of a settled job", key)
		}
		if _, err := decodeJobKey(key); err == nil {
			t.Errorf("%x was taken for a job key", key)
		}
		if _, _, err := decodeBlobKey(key); err == nil {
			t.Errorf("%x was taken for a blob key", key)
		}
		if _, _, err := decodeErrorKey(key); err == nil {
			t.Errorf("%x was taken for an error key", key)
		}
		if _, err := decodeFeedKey(key); err == nil {
			t.Errorf("%x was taken for a feed key", key)
		}
		if _, err := decodeUsageKey(key); err == nil {
			t.Errorf("%x was taken for a usage key", key)
		}
		if _, err := decodeShardKey(key, prefixOutbox); err == nil {
			t.Errorf("%x was taken for the key of an outbox", key)
		}
		if _, _, err := decodeOutgoingKey(key); err == nil {
			t.Errorf("%x was taken for an outgoing key", key)
		}
		if _, err := decodeForwardKey(key); err == nil {
			t.Errorf("%x was taken for a forward key", key)
		}
	}
}
