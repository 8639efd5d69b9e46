package fleet

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"slices"
	"strconv"
	"sync"

	"github.com/corvo/corvo/durable"
	"github.com/corvo/corvo/tenancy/token"
)

// CatalogueSlackBytes bounds the waste in the file. If the outdated bytes exceed the bytes of the current
// records by more than that, the file is rewritten.
const CatalogueSlackBytes = 1 << 20

// catalogueFormat is the version of the file.
const catalogueFormat = 1

// Catalogue stores the newest documents of each namespace and organisation on disk, with the trusted keys, so that a
// host or gateway that starts while the control plane is down can serve.
//
// Each line of the file is a CRC-32C in hex, a space and a JSON record. The file only grows at its end until
// it is replaced as a whole. OpenCatalogue cuts off a torn last line, because it was never acknowledged, and
// refuses a file with any other damage. Only one process may open the file. A Catalogue is safe for
// concurrent use.
type Catalogue struct {
	path string

	mu      sync.Mutex
	file    *os.File // positioned at its end
	failed  bool     // an append failed, so the end of the file is unknown
	pending []byte   // lines that are not written yet
	size    int      // bytes of the file
	number  int64
	trusted token.Set
	lines   map[subject]record
	open    map[string]int // number of the open namespaces in lines, by organisation
	live    int            // bytes of the encoded lines
}

// subject is what a document is about: one kind of a namespace or an organisation.
type subject struct{ kind, id string }

// subject returns the subject of a document. A document of an earlier version is replaced by a placement.
func (d *Doc) subject() subject {
	switch {
	case d.IsPlacement():
		return subject{KindPlacement, d.Namespace}
	case d.Kind == KindTokens:
		return subject{d.Kind, d.Org}
	}
	return subject{d.Kind, d.Namespace}
}

// record is one line of the file. The first record has Format. Each other record has a document, or keys,
// or the subject of documents to forget.
type record struct {
	Format    int             `json:"format,omitempty"`
	Number    int64           `json:"number"`
	JWKS      json.RawMessage `json:"jwks,omitempty"` // trusted from here on
	Doc       []byte          `json:"doc,omitempty"`  // the signed bytes; a JSON value in JSON could change them
	Signature string          `json:"signature,omitempty"`
	Signer    json.RawMessage `json:"signer,omitempty"`  // key set with the key that signed Doc; it may be retired by now
	Adopted   bool            `json:"adopted,omitempty"` // Doc came from another host, so that Number does not count it
	Forget    string          `json:"forget,omitempty"`  // id of a namespace, or of an organisation if Kind is KindTokens
	Kind      string          `json:"kind,omitempty"`    // to forget; "" = the placement and the keys of a namespace

	doc   Doc
	bytes int // of the line
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// OpenCatalogue opens or creates the file, in a directory that exists, and returns its documents in the
// order of their numbers. It refuses a file with a document that does not match its signature.
func OpenCatalogue(path string) (*Catalogue, []Doc, error) {
	c := &Catalogue{path: path, lines: map[subject]record{}, open: map[string]int{}}
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		err = c.rewrite()
	case err == nil:
		err = c.load(text)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("catalogue %s: %w", path, err)
	}
	docs := make([]Doc, 0, len(c.lines))
	for _, r := range c.lines {
		docs = append(docs, r.doc)
	}
	slices.SortFunc(docs, func(x, y Doc) int { return cmp.Compare(x.Number, y.Number) })
	return c, docs, nil
}

// load reads the lines of the file and opens it for appending.
func (c *Catalogue) load(text []byte) error {
	good := 0
	for good < len(text) {
		end := bytes.IndexByte(text[good:], '\n') + 1
		r, err := decodeLine(text[good : good+max(end, 0)])
		if err != nil {
			if errors.Is(err, errTorn) && (end == 0 || good+end == len(text)) {
				break // a crash interrupted its write
			}
			return fmt.Errorf("line at byte %d: %w; delete the file while the control plane can be reached, and it is fetched again", good, err)
		}
		if (good == 0) != (r.Format != 0) || r.Format > catalogueFormat {
			return fmt.Errorf("format %d at byte %d is not one this version reads: it reads %d", r.Format, good, catalogueFormat)
		}
		if err := c.apply(r); err != nil {
			return err
		}
		good += end
	}
	if good == 0 {
		return errors.New("the file is empty or damaged at its beginning: delete it while the control plane can be reached, and it is fetched again")
	}
	for _, r := range c.lines {
		if err := r.verify(); err != nil {
			return err
		}
	}
	file, err := os.OpenFile(c.path, os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	c.file, c.size = file, good
	if good < len(text) {
		err = errors.Join(file.Truncate(int64(good)), file.Sync())
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	return nil
}

// verify checks the signature of a document.
func (r record) verify() error {
	set, err := token.ParseSet(r.Signer)
	if err == nil {
		err = set.VerifyDocument(r.Doc, r.Signature)
	}
	if err != nil {
		return fmt.Errorf("document %d (%s of %s) was not signed as it stands: %w; delete the file while the control plane can be reached, and it is fetched again",
			r.Number, r.doc.subject().kind, r.doc.subject().id, err)
	}
	return nil
}

// Put stores messages durably before it returns, with one sync. It fits Follow.Keep. Keys must come before the
// documents that they sign, because Put refuses a document that no trusted key signed. Known keys change nothing, nor
// does a document that is not newer than the stored one of its kind and subject. After a refusal the messages before the
// refused one are stored. After a crash the file may have only the first of the messages, and Number is that of the
// last one in the file.
func (c *Catalogue) Put(messages ...Message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var refusal error
	for _, m := range messages {
		if refusal = c.put(m, c.stage); refusal != nil {
			break
		}
	}
	if err := c.flush(); err != nil {
		return err
	}
	return refusal
}

// Adopt stores a document that came from another host as Put does, but Number does not count it, because the stream has
// yet to send the documents before it.
func (c *Catalogue) Adopt(m Message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	m.JWKS = nil // no host speaks for the control plane
	return c.put(m, func(r record) error {
		r.Adopted = true
		return c.append(r)
	})
}

// Messages returns the stored documents that a store of a namespace needs, as the control plane signed them: the tokens of
// its organisation and its keys, if they are stored, and then its placement. It returns nil if there is no placement.
func (c *Catalogue) Messages(namespace string) (all []Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	placement, ok := c.lines[subject{KindPlacement, namespace}]
	if !ok {
		return nil
	}
	for _, s := range []subject{{KindTokens, placement.doc.Org}, {KindKeys, namespace}, {KindPlacement, namespace}} {
		if r, ok := c.lines[s]; ok {
			all = append(all, Message{Number: r.Number, Doc: r.Doc, Signature: r.Signature})
		}
	}
	return all
}

// Buffer takes a message like Put, but the next Flush writes it. A gateway follows every namespace, and a
// sync for each document would delay its start by minutes. Of an absent namespace Buffer stores only the
// number. It ignores a placement whose number is not above Number, because the placement may be an old one of
// such a namespace.
func (c *Catalogue) Buffer(m Message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.put(m, c.buffer)
}

// Flush writes the buffered messages durably. The file then has every document up to the returned number.
// After a failure the next Flush rewrites the whole file.
func (c *Catalogue) Flush() (number int64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	err = c.flush()
	return c.number, err
}

// put checks a message and passes its records to keep. The caller holds the lock.
func (c *Catalogue) put(m Message, keep func(record) error) error {
	if len(m.JWKS) > 0 {
		if err := c.putKeys(m.JWKS, keep); err != nil {
			return err
		}
	}
	if len(m.Doc) == 0 {
		return nil
	}
	if err := c.trusted.VerifyDocument(m.Doc, m.Signature); err != nil {
		return fmt.Errorf("document %d is not kept: %w", m.Number, err)
	}
	d, err := m.document()
	if err != nil {
		return err
	}
	if old, ok := c.lines[d.subject()]; ok && old.Number >= d.Number {
		return nil
	}
	signer := c.trusted.Only(token.Signer(m.Signature))
	return keep(record{Number: m.Number, Doc: m.Doc, Signature: m.Signature, Signer: signer.JWKS()})
}

// putKeys passes a changed key set to keep. The caller holds the lock.
func (c *Catalogue) putKeys(jwks []byte, keep func(record) error) error {
	set, err := token.ParseSet(jwks)
	if err != nil {
		return err
	}
	if text := set.JWKS(); !bytes.Equal(text, c.trusted.JWKS()) {
		return keep(record{Number: c.number, JWKS: text})
	}
	return nil
}

// Forget durably removes the placement and the keys of a namespace, and the tokens of an organisation without another
// open namespace. Number still counts the documents.
func (c *Catalogue) Forget(namespace string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.lines[subject{KindPlacement, namespace}]; !ok {
		return nil
	}
	return c.append(record{Number: c.number, Forget: namespace})
}

// Number returns the greatest number that was ever stored or buffered; 0 = none. A member follows the stream
// from there.
func (c *Catalogue) Number() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.number
}

// Trusted returns the newest stored key set.
func (c *Catalogue) Trusted() token.Set {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.trusted
}

// Close closes the file. It does not write the messages that Buffer took since the last Flush.
func (c *Catalogue) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.file.Close()
}

// append writes and syncs a record and applies it. The caller holds the lock.
func (c *Catalogue) append(r record) error {
	if err := c.stage(r); err != nil {
		return err
	}
	return c.flush()
}

// buffer stages a record of a follower that stores nothing of absent namespaces. The caller holds the lock.
func (c *Catalogue) buffer(r record) error {
	line, r, err := recode(r)
	if err != nil {
		return err
	}
	switch {
	case len(r.Doc) == 0 || !r.doc.IsPlacement():
	case r.Number <= c.number:
		return nil // a later record may have removed its namespace
	case r.doc.Desired == Absent:
		return c.stage(record{Number: r.Number, Forget: r.doc.Namespace})
	}
	return c.stageLine(line, r)
}

// stage applies a record that the next flush writes. The caller holds the lock.
func (c *Catalogue) stage(r record) error {
	line, r, err := recode(r)
	if err != nil {
		return err
	}
	return c.stageLine(line, r)
}

// stageLine stages an encoded record. With the placement of a namespace that is not to be open go its keys, and with the
// last open namespace of an organisation go its tokens, as in Directory.Put. The caller holds the lock.
func (c *Catalogue) stageLine(line []byte, r record) error {
	namespace := r.Forget
	if len(r.Doc) > 0 && r.doc.IsPlacement() {
		namespace = r.doc.Namespace
	}
	before := c.lines[subject{KindPlacement, namespace}].doc
	if !c.failed { // otherwise flush rewrites the whole file
		c.pending = append(c.pending, line...)
	}
	if err := c.apply(r); err != nil || namespace == "" || r.Kind != "" {
		return err
	}
	if c.lines[subject{KindPlacement, namespace}].doc.Desired == Open {
		return nil
	}
	if err := c.stageForget(subject{KindKeys, namespace}); err != nil || before.Desired != Open || c.open[before.Org] > 0 {
		return err
	}
	return c.stageForget(subject{KindTokens, before.Org})
}

// stageForget stages the removal of a document, if it is stored. The caller holds the lock.
func (c *Catalogue) stageForget(s subject) error {
	if _, ok := c.lines[s]; !ok {
		return nil
	}
	return c.stage(record{Number: c.number, Forget: s.id, Kind: s.kind})
}

// flush appends the staged lines and syncs the file, or rewrites it if too much of it is outdated or an append failed.
// The caller holds the lock.
func (c *Catalogue) flush() error {
	switch {
	case c.failed:
		if err := c.rewrite(); err != nil {
			return fmt.Errorf("write the catalogue anew after an append failed: %w", err)
		}
		return nil
	case len(c.pending) == 0:
		return nil
	}
	text := c.pending
	c.pending = nil
	_, err := c.file.Write(text)
	if err == nil {
		err = c.file.Sync()
	}
	if err != nil {
		c.failed = true
		return fmt.Errorf("append to the catalogue: %w", err)
	}
	c.size += len(text)
	return c.compact()
}

// compact rewrites the file if too much of it is outdated. The caller holds the lock.
func (c *Catalogue) compact() error {
	if c.size > 2*c.live+CatalogueSlackBytes {
		return c.rewrite()
	}
	return nil
}

// apply applies a record that is on disk, or will be at the next Flush.
func (c *Catalogue) apply(r record) error {
	if !r.Adopted {
		c.number = max(c.number, r.Number)
	}
	if len(r.JWKS) > 0 {
		set, err := token.ParseSet(r.JWKS)
		if err != nil {
			return err
		}
		c.trusted = set
	}
	switch {
	case len(r.Doc) > 0:
		s := r.doc.subject()
		if old, ok := c.lines[s]; ok && old.Number >= r.Number {
			return nil // there is a newer document, whatever the order of the lines
		}
		c.drop(s)
		c.lines[s] = r
		c.live += r.bytes
		if r.doc.Desired == Open {
			c.open[r.doc.Org]++
		}
	case r.Forget != "" && r.Kind != "":
		c.drop(subject{r.Kind, r.Forget})
	case r.Forget != "":
		c.drop(subject{KindPlacement, r.Forget})
		c.drop(subject{KindKeys, r.Forget})
	}
	return nil
}

// drop removes the document of a subject, if there is one.
func (c *Catalogue) drop(s subject) {
	old, ok := c.lines[s]
	if !ok {
		return
	}
	delete(c.lines, s)
	c.live -= old.bytes
	if old.doc.Desired == Open {
		if c.open[old.doc.Org]--; c.open[old.doc.Org] == 0 {
			delete(c.open, old.doc.Org)
		}
	}
}

// rewrite replaces the file by the current records. The caller holds the lock.
func (c *Catalogue) rewrite() error {
	c.failed = true // until the rewrite has succeeded
	text, err := encodeLine(record{Format: catalogueFormat, Number: c.number, JWKS: c.trusted.JWKS()})
	if err != nil {
		return err
	}
	for _, r := range c.lines {
		line, err := encodeLine(r)
		if err != nil {
			return err
		}
		text = append(text, line...)
	}
	if err := durable.WriteFile(c.path, text, 0o600); err != nil {
		return err
	}
	file, err := os.OpenFile(c.path, os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	if c.file != nil {
		_ = c.file.Close() // it was replaced, so no name refers to it any more
	}
	c.file, c.size, c.failed, c.pending = file, len(text), false, nil
	return nil
}

const crcDigits = 8

// errTorn means that a line is incomplete or damaged.
var errTorn = errors.New("its checksum does not fit")

func encodeLine(r record) ([]byte, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode a record of the catalogue: %w", err)
	}
	line := fmt.Appendf(nil, "%08x ", crc32.Checksum(text, castagnoli))
	return append(append(line, text...), '\n'), nil
}

// recode encodes a record and decodes it again, so that memory has the same contents as the file.
func recode(r record) (line []byte, _ record, err error) {
	if line, err = encodeLine(r); err != nil {
		return nil, r, err
	}
	r, err = decodeLine(line)
	return line, r, err
}

func decodeLine(line []byte) (r record, err error) {
	if len(line) < crcDigits+2 || line[len(line)-1] != '\n' || line[crcDigits] != ' ' {
		return r, errTorn
	}
	text := line[crcDigits+1 : len(line)-1]
	sum, err := strconv.ParseUint(string(line[:crcDigits]), 16, 32)
	if err != nil || uint32(sum) != crc32.Checksum(text, castagnoli) {
		return r, errTorn
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("its checksum fits and it does not read: %w", err)
	}
	if len(r.Doc) > 0 {
		if r.doc, err = (Message{Number: r.Number, Doc: r.Doc}).document(); err != nil {
			return r, err
		}
	}
	r.bytes = len(line)
	return r, nil
}
