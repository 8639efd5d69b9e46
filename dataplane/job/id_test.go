package job_test

import (
	"encoding/base32"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/corvo/corvo/dataplane/job"
)

func TestIDCarriesItsBirth(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ms := rapid.Int64Range(0, 1<<48-1).Draw(t, "ms")
		queue := rapid.String().Draw(t, "queue")
		var entropy job.Entropy
		copy(entropy[:], rapid.SliceOfN(rapid.Byte(), len(entropy), len(entropy)).Draw(t, "entropy"))
		id := job.NewID(ms, queue, entropy)
		if id.UnixMs() != ms || id.Slot() != job.SlotOf(queue) {
			t.Fatalf("%s: born at %d in slot %d, want %d and %d", id, id.UnixMs(), id.Slot(), ms, job.SlotOf(queue))
		}
		for _, text := range []string{id.String(), job.IDPrefix + strings.ToLower(id.String()[len(job.IDPrefix):])} {
			if back, err := job.ParseID(text); err != nil || back != id {
				t.Fatalf("%s reads back as %s, %v", text, back, err)
			}
		}
		if want := job.IDPrefix + crockford.EncodeToString(id[:]); id.String() != want || string(id.Append([]byte("to "))) != "to "+want {
			t.Fatalf("%x is written %s, want %s", id[:], id, want)
		}
		if back, err := job.IDFromBytes(id[:]); err != nil || back != id {
			t.Fatalf("bytes of %s read back as %s, %v", id, back, err)
		}
		if ms > 0 {
			older := job.NewID(ms-1, queue, job.Entropy{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
			if slices.Compare(older[:], id[:]) >= 0 || older.String() >= id.String() {
				t.Fatalf("%s, a millisecond older, does not sort before %s", older, id)
			}
		}
	})
}

// crockford encodes ids with the standard library.
var crockford = base32.NewEncoding("0123456789ABCDEFGHJKMNPQRSTVWXYZ").WithPadding(base32.NoPadding)

func TestParseIDRefuses(t *testing.T) {
	t.Parallel()
	good := job.NewID(1_700_000_000_000, "emails", job.Entropy{}).String()
	for name, text := range map[string]string{
		"empty":           "",
		"no prefix":       good[len(job.IDPrefix):],
		"short":           good[:len(good)-1],
		"long":            good + "0",
		"wrong letter":    good[:len(good)-1] + "U",
		"bits beyond":     good[:len(good)-1] + "1",
		"line breaks":     good[:len(good)-2] + "\n\n",
		"letter like S":   good[:len(good)-2] + "ſ",
		"upper-case word": "JOB_" + good[len(job.IDPrefix):],
	} {
		if id, err := job.ParseID(text); err == nil {
			t.Errorf("%s: %q reads as %s", name, text, id)
		}
	}
	for _, b := range [][]byte{nil, make([]byte, 15), make([]byte, 17)} {
		if _, err := job.IDFromBytes(b); err == nil {
			t.Errorf("%d bytes read as an id", len(b))
		}
	}
}

func FuzzParseID(f *testing.F) {
	f.Add("")
	f.Add("job_")
	f.Add(job.NewID(1_700_000_000_000, "emails", job.Entropy{1, 2, 3}).String())
	f.Add("job_0000000000000000000000000\n")
	f.Add("job_zzzzzzzzzzzzzzzzzzzzzzzzzz")
	f.Fuzz(func(t *testing.T, text string) {
		id, err := job.ParseID(text)
		if err != nil {
			return
		}
		if got := id.String(); !strings.EqualFold(got, text) {
			t.Errorf("%q reads as %s", text, got)
		}
	})
}
