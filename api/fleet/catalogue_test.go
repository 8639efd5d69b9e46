package fleet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/corvo/corvo/tenancy/token"
)

func signingKey(t testing.TB, b byte) token.Key {
	t.Helper()
	k, err := token.KeyFromSeed(bytes.Repeat([]byte{b}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func keysMessage(keys ...token.Key) Message {
	var set []byte
	switch len(keys) {
	case 1:
		set = token.NewSet(keys[0].Public()).JWKS()
	case 2:
		set = token.NewSet(keys[0].Public(), keys[1].Public()).JWKS()
	}
	return Message{JWKS: set}
}

func docMessage(t testing.TB, k token.Key, d Doc) Message {
	t.Helper()
	// Not the encoding of this package: white space and <> must survive.
	text, err := json.MarshalIndent(d, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.ReplaceAll(text, []byte(`\u003c`), []byte("<"))
	return Message{Number: d.Number, Doc: text, Signature: token.SignDocument(k, text)}
}

func openCatalogue(t testing.TB, path string) (*Catalogue, []Doc) {
	t.Helper()
	c, docs, err := OpenCatalogue(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // again, in most tests
	return c, docs
}

func put(t testing.TB, c *Catalogue, messages ...Message) {
	t.Helper()
	for _, m := range messages {
		if err := c.Put(m); err != nil {
			t.Fatal(err)
		}
	}
}

// placementOf returns the last of the stored documents that a store of a namespace needs.
func placementOf(c *Catalogue, namespace string) (Message, bool) {
	all := c.Messages(namespace)
	if len(all) == 0 {
		return Message{}, false
	}
	return all[len(all)-1], true
}

func namespaces(docs []Doc) (all []string) {
	for _, d := range docs {
		all = append(all, d.Namespace)
	}
	return all
}

// TestCatalogueSurvives checks that a host that restarts while the control plane is down has its
// namespaces, their keys and the trusted keys.
func TestCatalogueSurvives(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "catalogue")
	c, docs := openCatalogue(t, path)
	if len(docs) != 0 || c.Number() != 0 || c.Trusted().Len() != 0 {
		t.Error("a new one is not empty")
	}
	before, after := signingKey(t, 1), signingKey(t, 2)
	put(t, c, keysMessage(before),
		docMessage(t, before, docOf(1, "n1", "one <")),
		docMessage(t, before, docOf(2, "n2", "two")),
		docMessage(t, before, docOf(3, "n1", "uno <")),
		keysMessage(before, after),
		docMessage(t, after, docOf(4, "n3", "three")),
		// The first key retires. Its signatures stay valid in the file.
		keysMessage(after))
	// No Close, as if the process were killed.
	again, docs := openCatalogue(t, path)
	if got := namespaces(docs); !slices.Equal(got, []string{"n2", "n1", "n3"}) || docs[1].Name != "uno <" {
		t.Errorf("documents of %v: %+v", got, docs)
	}
	if again.Number() != 4 || !bytes.Equal(again.Trusted().JWKS(), keysMessage(after).JWKS) {
		t.Errorf("number %d, trusting %s", again.Number(), again.Trusted().JWKS())
	}
	// A new signature of the retired key is refused.
	if err := again.Put(docMessage(t, before, docOf(5, "n1", "one"))); err == nil {
		t.Error("a document by a retired key is kept")
	}
	if err := again.Forget("n3"); err != nil {
		t.Fatal(err)
	}
	last, docs := openCatalogue(t, path)
	if got := namespaces(docs); !slices.Equal(got, []string{"n2", "n1"}) || last.Number() != 4 {
		t.Errorf("after n3 is forgotten: %v, number %d", got, last.Number())
	}
}

// TestCatalogueAdopts checks that a document from another host is kept as it was signed and verified like one of the
// stream, but moves the position in the stream neither at once nor after a restart.
func TestCatalogueAdopts(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "catalogue")
	c, _ := openCatalogue(t, path)
	ours, foreign := signingKey(t, 1), signingKey(t, 2)
	put(t, c, keysMessage(ours), docMessage(t, ours, docOf(1, "n1", "one")))
	adopted := docMessage(t, ours, docOf(9, "n1", "uno <"))
	if err := c.Adopt(adopted); err != nil {
		t.Fatal(err)
	}
	other := docMessage(t, foreign, docOf(10, "n1", "none"))
	other.JWKS = keysMessage(ours, foreign).JWKS
	if err := c.Adopt(other); err == nil || c.Trusted().Len() != 1 {
		t.Errorf("a document and a key of another control plane: %v, %d keys are trusted", err, c.Trusted().Len())
	}
	for range 2 {
		if m, ok := placementOf(c, "n1"); !ok || c.Number() != 1 || m.Number != 9 || !bytes.Equal(m.Doc, adopted.Doc) || m.Signature != adopted.Signature {
			t.Errorf("document %d after document %d of the stream: %s", m.Number, c.Number(), m.Doc)
		}
		c, _ = openCatalogue(t, path)
	}
	put(t, c, docMessage(t, ours, docOf(5, "n2", "two")), docMessage(t, ours, docOf(8, "n1", "eight")))
	if m, _ := placementOf(c, "n1"); m.Number != 9 || c.Number() != 5 {
		t.Errorf("the stream's older document: %d after %d", m.Number, c.Number())
	}
	if _, ok := placementOf(c, "n3"); ok {
		t.Error("there is a document of an unknown namespace")
	}
}

// TestCatalogueRepeats checks that a known message costs no write.
func TestCatalogueRepeats(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "catalogue")
	c, _ := openCatalogue(t, path)
	k := signingKey(t, 1)
	messages := []Message{keysMessage(k), docMessage(t, k, docOf(2, "n1", "one"))}
	put(t, c, messages...)
	size := c.size
	put(t, c, messages...)
	put(t, c, docMessage(t, k, docOf(1, "n1", "old")), Message{Number: 9})
	if err := c.Forget("n9"); err != nil {
		t.Fatal(err)
	}
	if c.size != size {
		t.Errorf("the file grew from %d to %d bytes", size, c.size)
	}
}

func TestCatalogueKeepsNoForgery(t *testing.T) {
	t.Parallel()
	c, _ := openCatalogue(t, filepath.Join(t.TempDir(), "catalogue"))
	k, untrusted := signingKey(t, 1), signingKey(t, 2)
	good := docMessage(t, k, docOf(1, "n1", "one"))
	if err := c.Put(good); err == nil {
		t.Error("a document is kept before any key is trusted")
	}
	put(t, c, keysMessage(k))
	renumbered := good
	renumbered.Number = 2
	tampered := good
	tampered.Doc = bytes.Replace(good.Doc, []byte("one"), []byte("two"), 1)
	for name, m := range map[string]Message{
		"a untrusted's": docMessage(t, untrusted, docOf(1, "n1", "one")), "renumbered": renumbered, "tampered with": tampered,
		"keys that are none": {JWKS: json.RawMessage(`{}`)},
	} {
		if err := c.Put(m); err == nil {
			t.Errorf("%s: kept", name)
		}
	}
	put(t, c, good)
}

// TestCatalogueDamage checks that a torn last line, which was never acknowledged, is cut off, and that
// any other damage refuses the file, because half a catalogue would close namespaces.
func TestCatalogueDamage(t *testing.T) {
	t.Parallel()
	source := filepath.Join(t.TempDir(), "catalogue")
	c, _ := openCatalogue(t, source)
	k, untrusted := signingKey(t, 1), signingKey(t, 2)
	put(t, c, keysMessage(k), docMessage(t, k, docOf(1, "n1", "one")))
	acknowledged := c.size
	put(t, c, docMessage(t, k, docOf(2, "n2", "two")))
	whole, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	write := func(text []byte) string {
		path := filepath.Join(t.TempDir(), "catalogue")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, cut := range []int{acknowledged, acknowledged + 1, acknowledged + 9, len(whole) - 2, len(whole) - 1} {
		path := write(whole[:cut])
		c, docs := openCatalogue(t, path)
		if got := namespaces(docs); !slices.Equal(got, []string{"n1"}) {
			t.Errorf("cut at %d of %d: %v", cut, len(whole), got)
		}
		put(t, c, docMessage(t, k, docOf(3, "n3", "three")))
		if _, docs := openCatalogue(t, path); !slices.Equal(namespaces(docs), []string{"n1", "n3"}) {
			t.Errorf("cut at %d, then written: %v", cut, namespaces(docs))
		}
	}
	flipped := func(at int) []byte {
		text := bytes.Clone(whole)
		text[at] ^= 1
		return text
	}
	// The sectors of the last line may reach the disk in any order.
	if _, docs := openCatalogue(t, write(flipped(len(whole)-20))); !slices.Equal(namespaces(docs), []string{"n1"}) {
		t.Errorf("a last line with a hole: %v", namespaces(docs))
	}
	line, err := encodeLine(record{Format: catalogueFormat + 1})
	if err != nil {
		t.Fatal(err)
	}
	forged := docMessage(t, untrusted, docOf(3, "n3", "three"))
	unsigned, err := encodeLine(record{Number: 3, Doc: forged.Doc, Signature: forged.Signature, Signer: keysMessage(k).JWKS})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		text  []byte
		fault string
	}{
		{"empty", nil, "empty or damaged"},
		{"damaged in its first line", flipped(12), "checksum"},
		{"damaged in its middle", flipped(acknowledged - 20), "checksum"},
		{"of a newer version", line, "format 2"},
		{"without its first line", whole[bytes.IndexByte(whole, '\n')+1:], "format 0"},
		{"with a document that was not signed so", slices.Concat(whole, unsigned), "was not signed as it stands"},
	} {
		if _, _, err := OpenCatalogue(write(c.text)); err == nil || !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s: %v, want %q", c.name, err, c.fault)
		}
	}
}

// TestCatalogueStaysSmall checks that the size of the file depends on its contents and not on the number
// of changes.
func TestCatalogueStaysSmall(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "catalogue")
	c, _ := openCatalogue(t, path)
	k := signingKey(t, 1)
	put(t, c, keysMessage(k))
	large := docOf(0, "n1", strings.Repeat("x", 100<<10))
	for n := range int64(40) {
		large.Number = n + 1
		put(t, c, docMessage(t, k, large))
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if bound := int64(2*c.live + CatalogueSlackBytes); info.Size() > bound || int(info.Size()) != c.size {
			t.Fatalf("after %d documents the file has %d bytes, the bound is %d", n+1, info.Size(), bound)
		}
	}
	if _, docs := openCatalogue(t, path); len(docs) != 1 || docs[0].Number != 40 {
		t.Errorf("%d documents", len(docs))
	}
}

// TestCatalogueAfterAFailedAppend checks that the next Put rewrites the whole file, because the end of
// the file is unknown.
func TestCatalogueAfterAFailedAppend(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "catalogue")
	c, _ := openCatalogue(t, path)
	k := signingKey(t, 1)
	put(t, c, keysMessage(k), docMessage(t, k, docOf(1, "n1", "one")))
	whole := c.file
	readOnly, err := os.Open(path) // a file that cannot be written
	if err != nil {
		t.Fatal(err)
	}
	c.file = readOnly
	if err := whole.Close(); err != nil {
		t.Fatal(err)
	}
	two := docMessage(t, k, docOf(2, "n2", "two"))
	if err := c.Put(two); err == nil {
		t.Fatal("it was acknowledged and is not there")
	}
	put(t, c, two)
	if _, docs := openCatalogue(t, path); !slices.Equal(namespaces(docs), []string{"n1", "n2"}) {
		t.Errorf("documents of %v", namespaces(docs))
	}
}

// TestCatalogueKeepsABatch checks that documents that are put together are on disk after one write, that a crash during
// that write leaves the first of them with their number, and that those before a refused one are kept.
func TestCatalogueKeepsABatch(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "catalogue")
	c, _ := openCatalogue(t, path)
	k := signingKey(t, 1)
	put(t, c, keysMessage(k))
	if err := c.Put(docMessage(t, k, docOf(1, "n1", "one")), docMessage(t, k, docOf(2, "n2", "two")), docMessage(t, k, docOf(3, "n3", "three"))); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for cut, want := range map[int][]string{0: {"n1", "n2", "n3"}, 1: {"n1", "n2"}, c.lines[subject{KindPlacement, "n3"}].bytes + 1: {"n1"}} {
		torn := filepath.Join(t.TempDir(), "catalogue")
		if err := os.WriteFile(torn, text[:len(text)-cut], 0o600); err != nil {
			t.Fatal(err)
		}
		if again, docs := openCatalogue(t, torn); !slices.Equal(namespaces(docs), want) || again.Number() != int64(len(want)) {
			t.Errorf("without %d bytes: %v up to %d, want %v", cut, namespaces(docs), again.Number(), want)
		}
	}
	if err := c.Put(docMessage(t, k, docOf(4, "n4", "four")), docMessage(t, signingKey(t, 2), docOf(5, "n5", "five"))); err == nil {
		t.Error("a document of an untrusted key is kept")
	}
	if again, docs := openCatalogue(t, path); again.Number() != 4 || len(docs) != 4 {
		t.Errorf("%v up to %d", namespaces(docs), again.Number())
	}
}

// TestCatalogueBuffers checks that a buffered message counts at once and is on disk after a Flush, and
// that only the number of an absent namespace is stored.
func TestCatalogueBuffers(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "catalogue")
	c, _ := openCatalogue(t, path)
	k := signingKey(t, 1)
	note := func(m Message) {
		t.Helper()
		if err := c.Buffer(m); err != nil {
			t.Fatal(err)
		}
	}
	flush := func(want ...string) {
		t.Helper()
		number, err := c.Flush()
		if err != nil {
			t.Fatal(err)
		}
		if again, docs := openCatalogue(t, path); !slices.Equal(namespaces(docs), want) || again.Number() != number {
			t.Fatalf("on disk %v up to %d, want %v up to %d", namespaces(docs), again.Number(), want, number)
		}
	}
	note(keysMessage(k))
	note(docMessage(t, k, docOf(1, "n1", "one")))
	note(docMessage(t, k, docOf(2, "n2", "two")))
	if _, docs := openCatalogue(t, path); len(docs) != 0 || c.Number() != 2 {
		t.Errorf("before the flush: %v on disk, number %d", namespaces(docs), c.Number())
	}
	flush("n1", "n2")
	size := c.size
	flush("n1", "n2")
	if c.size != size {
		t.Error("a flush of nothing writes")
	}
	gone := docOf(3, "n1", "one")
	gone.Desired = Absent
	note(docMessage(t, k, gone))
	note(docMessage(t, k, docOf(1, "n1", "one"))) // older than what was forgotten
	if err := c.Buffer(docMessage(t, signingKey(t, 2), docOf(4, "n3", "three"))); err == nil {
		t.Error("a document of a untrusted is buffered")
	}
	flush("n2")
	whole := c.file
	readOnly, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	c.file = readOnly
	if err := whole.Close(); err != nil {
		t.Fatal(err)
	}
	note(docMessage(t, k, docOf(5, "n5", "five")))
	if _, err := c.Flush(); err == nil {
		t.Fatal("a write that failed is not told of")
	}
	note(docMessage(t, k, docOf(6, "n6", "six")))
	flush("n2", "n5", "n6")
}

// TestCatalogueForgetsKeys checks that the keys of a namespace that is not to be open are removed, and the tokens of an
// organisation with its last open namespace, whether documents are put or buffered; and that older ones may come again.
func TestCatalogueForgetsKeys(t *testing.T) {
	t.Parallel()
	k := signingKey(t, 1)
	placement := func(number int64, namespace, desired string) Doc {
		d := docOf(number, namespace, namespace)
		d.Kind, d.Desired = KindPlacement, desired
		return d
	}
	for name, keep := range map[string]func(*Catalogue, Message) error{
		"put": func(c *Catalogue, m Message) error { return c.Put(m) },
		"buffered": func(c *Catalogue, m Message) error {
			err := c.Buffer(m)
			_, flushed := c.Flush()
			return errors.Join(err, flushed)
		},
	} {
		path := filepath.Join(t.TempDir(), "catalogue")
		c, _ := openCatalogue(t, path)
		step := func(want string, docs ...Doc) {
			t.Helper()
			for _, d := range docs {
				if err := keep(c, docMessage(t, k, d)); err != nil {
					t.Fatal(err)
				}
			}
			rewritten := errors.Join(c.rewrite(), c.Close())
			if rewritten != nil {
				t.Fatal(rewritten)
			}
			var all []Doc
			c, all = openCatalogue(t, path)
			var got []string
			for _, d := range all {
				if d.Desired == Open || !d.IsPlacement() {
					got = append(got, fmt.Sprint(d.Kind, " ", d.subject().id, " ", d.Number))
				}
			}
			if strings.Join(got, ", ") != want {
				t.Errorf("%s: %v, want %s", name, got, want)
			}
		}
		put(t, c, keysMessage(k))
		tokens, keys := Doc{Number: 1, Kind: KindTokens, Org: "o"}, Doc{Number: 2, Kind: KindKeys, Org: "o", Namespace: "n1"}
		step("tokens o 1, keys n1 2, placement n1 3, placement n2 4", tokens, keys, placement(3, "n1", Open), placement(4, "n2", Open))
		step("tokens o 1, placement n2 4", placement(5, "n1", Leave))
		step("", placement(6, "n2", Absent))
		step("tokens o 1, keys n1 2, placement n1 7", tokens, keys, placement(7, "n1", Open))
		if c.Number() != 7 {
			t.Errorf("%s: number %d", name, c.Number())
		}
	}
}

// TestCatalogueTakesTheNewest checks that the newest document of a namespace counts, whatever the order
// of the lines.
func TestCatalogueTakesTheNewest(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "catalogue")
	c, _ := openCatalogue(t, path)
	k := signingKey(t, 1)
	put(t, c, keysMessage(k), docMessage(t, k, docOf(7, "n1", "new")))
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	old := docMessage(t, k, docOf(3, "n1", "old"))
	line, err := encodeLine(record{Number: 3, Doc: old.Doc, Signature: old.Signature, Signer: keysMessage(k).JWKS})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, slices.Concat(text, line), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, docs := openCatalogue(t, path); len(docs) != 1 || docs[0].Name != "new" {
		t.Errorf("%+v", docs)
	}
}

func FuzzCatalogueLine(f *testing.F) {
	k := signingKey(f, 1)
	m := docMessage(f, k, docOf(1, "n1", "one"))
	line, err := encodeLine(record{Number: 1, Doc: m.Doc, Signature: m.Signature, Signer: keysMessage(k).JWKS})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(line)
	f.Add([]byte("00000000 {}\n"))
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := decodeLine(line)
		if err != nil {
			return
		}
		again, err := encodeLine(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decodeLine(again); err != nil {
			t.Fatalf("%q reads and is written as %q: %v", line, again, err)
		}
	})
}
