package keyring

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/tenancy"
)

// ring is a Source backed by a map.
type ring map[string]tenancy.Key

func (r ring) Key(id string) (tenancy.Key, bool) {
	k, ok := r[id]
	return k, ok
}

func mustNew(t testing.TB) (text, id string, hash [32]byte) {
	t.Helper()
	text, id, hash, err := New(rand.Reader, Namespace)
	if err != nil {
		t.Fatal(err)
	}
	return text, id, hash
}

func TestNew(t *testing.T) {
	t.Parallel()
	text, id, hash := mustNew(t)
	if want := len("cv_ns_") + IDLength + 1 + secretLength + crcLength; len(text) != want || len(text) > maxLength {
		t.Errorf("key %s has %d characters, want %d", text, len(text), want)
	}
	if !strings.HasPrefix(text, "cv_ns_"+id+"_") {
		t.Errorf("key %s does not begin with its kind and id %s", text, id)
	}
	if hash != sha256.Sum256([]byte(text)) {
		t.Error("the hash is not the SHA-256 of the whole text")
	}
	if kind, got, ok := Parse(text); !ok || kind != Namespace || got != id {
		t.Errorf("Parse(%s) = %s, %s, %v", text, kind, got, ok)
	}
	seen := map[string]bool{}
	for range 1000 {
		text, id, _ := mustNew(t)
		if seen[text] || seen[id] {
			t.Fatal("two keys share a text or an id")
		}
		seen[text], seen[id] = true, true
	}
}

// TestNewDrawsFairly checks that bytes from 248 up are dropped, so that no character is likelier than
// another.
func TestNewDrawsFairly(t *testing.T) {
	t.Parallel()
	if text, err := draw(strings.NewReader(strings.Repeat("\xff\xf8\xf7\x00", 64)), 4); err != nil || text != "z0z0" {
		t.Errorf("draw = %q, %v; want z0z0", text, err)
	}
}

func TestNewFailsWithItsRandomness(t *testing.T) {
	t.Parallel()
	broken := errors.New("no entropy")
	for _, random := range []io.Reader{iotest.ErrReader(broken), io.MultiReader(strings.NewReader("short"), iotest.ErrReader(broken))} {
		if text, _, _, err := New(random, Namespace); !errors.Is(err, broken) || text != "" {
			t.Errorf("New = %q, %v; want %v", text, err, broken)
		}
	}
}

// fixedKey fixes the format, because keys in use must stay valid.
const fixedKey = "cv_ns_0123456789ABCDEF_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefg"

func TestParse(t *testing.T) {
	t.Parallel()
	good := fixedKey + checksum(fixedKey)
	if _, id, ok := Parse(good); !ok || id != "0123456789ABCDEF" {
		t.Fatalf("Parse(%s) = %s, %v", good, id, ok)
	}
	if want := "1jKUpZ"; checksum(fixedKey) != want {
		t.Errorf("the checksum is %s, was %s", checksum(fixedKey), want)
	}
	resum := func(body string) string { return body + checksum(body) }
	for name, text := range map[string]string{
		"empty":           "",
		"prefix only":     "cv_",
		"other prefix":    resum("sk" + fixedKey[2:]),
		"unknown kind":    resum("cv_xx" + fixedKey[5:]),
		"no kind":         resum("cv_" + fixedKey[5:]),
		"short id":        resum("cv_ns_0123456789ABCDE_" + fixedKey[23:]),
		"long id":         resum("cv_ns_0123456789ABCDEFG_" + fixedKey[23:]),
		"id with a dash":  resum("cv_ns_0123456789ABCDE-_" + fixedKey[23:]),
		"short secret":    resum(fixedKey[:len(fixedKey)-1]),
		"long secret":     resum(fixedKey + "x"),
		"secret with _":   resum(fixedKey[:len(fixedKey)-1] + "_"),
		"no checksum":     fixedKey,
		"truncated":       good[:len(good)-1],
		"something more":  good + "x",
		"space before":    " " + good,
		"newline after":   good + "\n",
		"huge":            good + strings.Repeat("x", 1<<16),
		"not ASCII":       resum(fixedKey[:len(fixedKey)-2] + "é"),
		"checksum case":   fixedKey + strings.ToLower(checksum(fixedKey)),
		"zero bytes":      strings.Repeat("\x00", len(good)),
		"underscores":     strings.Repeat("_", len(good)),
		"checksum beyond": fixedKey + "zzzzzz",
	} {
		if kind, id, ok := Parse(text); ok || kind != "" || id != "" {
			t.Errorf("%s: Parse takes it: %s, %s, %v", name, kind, id, ok)
		}
	}
}

// TestParseFindsTypos changes each character and swaps each pair.
func TestParseFindsTypos(t *testing.T) {
	t.Parallel()
	text, _, _ := mustNew(t)
	for i := range len(text) {
		for _, c := range []byte(alphabet + "_") {
			typo := text[:i] + string(c) + text[i+1:]
			if _, _, ok := Parse(typo); ok && typo != text {
				t.Fatalf("%s is taken, with %c at %d changed from %s", typo, c, i, text)
			}
		}
		if i > 0 && text[i] != text[i-1] {
			typo := text[:i-1] + text[i:i+1] + text[i-1:i] + text[i+1:]
			if _, _, ok := Parse(typo); ok {
				t.Fatalf("%s is taken, with %d and %d swapped", typo, i-1, i)
			}
		}
	}
}

func TestVerify(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	text, id, hash := mustNew(t)
	other, _, _ := mustNew(t)
	good := tenancy.Key{ID: id, Name: "ci", Roles: []tenancy.Role{tenancy.Worker}, Hash: hash, Enabled: true}
	with := func(change func(*tenancy.Key)) ring {
		k := good
		change(&k)
		return ring{id: k}
	}
	forged := text[:len("cv_ns_")+IDLength+1] + other[len("cv_ns_")+IDLength+1:len(other)-crcLength]
	forged += checksum(forged)
	ofHost, _, _, err := New(rand.Reader, Host)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		source  ring
		text    string
		message string // "" = verified
	}{
		{"good", ring{id: good}, text, ""},
		{"not yet expired", with(func(k *tenancy.Key) { k.ExpiresAt = now.Add(1) }), text, ""},
		{"expired", with(func(k *tenancy.Key) { k.ExpiresAt = now }), text, refused},
		{"disabled", with(func(k *tenancy.Key) { k.Enabled = false }), text, refused},
		{"unknown", ring{}, text, refused},
		{"another secret", ring{id: good}, forged, refused},
		{"another hash", with(func(k *tenancy.Key) { k.Hash[31] ^= 1 }), text, refused},
		{"no hash", with(func(k *tenancy.Key) { k.Hash = [32]byte{} }), text, refused},
		{"empty", ring{id: good}, "", noKey},
		{"text", ring{id: good}, "hello", notAKey},
		{"no whole key", ring{id: good}, "cv_ns_bad", notAKey},
		{"another kind", ring{id: good}, ofHost, "a key that starts with cv_host_ is not accepted here: use a key that starts with cv_ns_"},
		{"typo", ring{id: good}, text[:len(text)-1] + "!", notAKey},
		{"the id alone", ring{id: good}, id, notAKey},
	} {
		key, err := Verify(c.source, c.text, now, Namespace)
		if c.message == "" {
			if err != nil || key.ID != id || key.Name != "ci" {
				t.Errorf("%s: %+v, %v", c.name, key, err)
			}
			continue
		}
		var e *api.Error
		if !errors.As(err, &e) {
			t.Fatalf("%s: %v, want UNAUTHORIZED %q", c.name, err, c.message)
		}
		if e.Code != api.Unauthorized || len(e.Details) > 0 {
			t.Errorf("%s: %s with the details %v, want UNAUTHORIZED without", c.name, e.Code, e.Details)
		}
		if e.Message != c.message {
			t.Errorf("%s: says %q, want %q", c.name, e.Message, c.message)
		}
		if key.ID != "" || key.Roles != nil || key.Enabled {
			t.Errorf("%s: refused, yet returns %+v", c.name, key)
		}
	}
}

func TestVerifyDoesNotAllocate(t *testing.T) {
	text, id, hash := mustNew(t)
	source := ring{id: {ID: id, Hash: hash, Enabled: true}}
	now := time.Unix(1_800_000_000, 0)
	if got := testing.AllocsPerRun(100, func() {
		if _, err := Verify(source, text, now, Namespace); err != nil {
			t.Fatal(err)
		}
	}); got != 0 {
		t.Errorf("Verify allocates %v times, want 0, because it runs for every request", got)
	}
}

func BenchmarkVerify(b *testing.B) {
	text, id, hash := mustNew(b)
	source := ring{id: {ID: id, Hash: hash, Enabled: true}}
	now := time.Unix(1_800_000_000, 0)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Verify(source, text, now, Namespace); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(fixedKey + checksum(fixedKey))
	f.Add(fixedKey)
	f.Add("cv_ns__")
	f.Add("cv_")
	f.Fuzz(func(t *testing.T, text string) {
		kind, id, ok := Parse(text)
		if !ok {
			want := notAKey
			if text == "" {
				want = noKey
			}
			if _, err := Verify(ring{}, text, time.Time{}, Namespace); err == nil || !strings.Contains(err.Error(), want) {
				t.Fatalf("Verify(%q) = %v", text, err)
			}
			return
		}
		body := text[:len(text)-crcLength]
		if kind != Namespace || len(id) != IDLength {
			t.Fatalf("Parse(%q) = %s, %s", text, kind, id)
		}
		if head := text[:6+IDLength+1]; head != "cv_ns_"+id+"_" {
			t.Fatalf("Parse(%q) = id %s, the text begins with %q", text, id, head)
		}
		if body+checksum(body) != text {
			t.Fatalf("Parse(%q) accepts another checksum than %q", text, checksum(body))
		}
	})
}
