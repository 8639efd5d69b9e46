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

// CatalogueSlackBytes is how much of a catalogue's file may be out of date, beside
// as much again as what is not, before it is written anew.
const CatalogueSlackBytes = 1 << 20

// catalogueFormat is the version of the file.
const catalogueFormat = 1

// Catalogue is the newest document of each namespace on disk, with the keys that
// were trusted: a host that starts while the control plane is down serves by it.
//
// The file is lines, each a CRC-32C in hex, a space and a JSON record, and only
// ever grows at its end until it is replaced as a whole. A last line that is torn
// was never acknowledged and is cut; damage anywhere else refuses the file. One
// process has it open. Its methods may be called by any goroutine.
type Catalogue struct {
	path string

	mu      sync.Mutex
	file    *os.File // at its end
	failed  bool     // an append did: what the file ends with is not known
	pending []byte   // lines that Note has taken and no Flush has written
	size    int      // bytes of the file
	number  int64
	trusted token.Set
	lines   map[string]record // by namespace
	live    int               // bytes of lines, as encoded
}

// record is one line of the file. The first has Format; each of the others a
// document, or keys, or the id of a namespace to forget.
type record struct {
	Format    int             `json:"format,omitempty"`
	Number    int64           `json:"number"`
	JWKS      json.RawMessage `json:"jwks,omitempty"` // that are trusted from here on
	Doc       []byte          `json:"doc,omitempty"`  // to the byte as it was signed, which JSON in JSON is not
	Signature string          `json:"signature,omitempty"`
	Signer    json.RawMessage `json:"signer,omitempty"` // key set of what signed Doc: it may be retired by now
	Forget    string          `json:"forget,omitempty"`

	doc   Doc
	bytes int // of the line
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// OpenCatalogue opens the file or makes it, in a directory that exists, and
// answers its documents in the order of their numbers. A document whose signature
// is not that of the key it was kept with refuses the file.
func OpenCatalogue(path string) (*Catalogue, []Doc, error) {
	c := &Catalogue{path: path, lines: map[string]record{}}
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

// load takes the file's lines and opens it for more.
func (c *Catalogue) load(text []byte) error {
	good := 0
	for good < len(text) {
		end := bytes.IndexByte(text[good:], '\n') + 1
		r, err := decodeLine(text[good : good+max(end, 0)])
		if err != nil {
			if errors.Is(err, errTorn) && (end == 0 || good+end == len(text)) {
				break // it was being written when the machine stopped
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

// verify says whether a document is what its key signed.
func (r record) verify() error {
	set, err := token.ParseSet(r.Signer)
	if err == nil {
		err = set.VerifyDocument(r.Doc, r.Signature)
	}
	if err != nil {
		return fmt.Errorf("document %d of namespace %s was not signed as it stands: %w; delete the file while the control plane can be reached, and it is fetched again", r.Number, r.doc.Namespace, err)
	}
	return nil
}

// Put keeps a message as Follow.Keep is given it: durably, before it returns. The
// keys come before documents that they sign. What is known already changes
// nothing.
func (c *Catalogue) Put(m Message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.put(m, c.append)
}

// Note takes a message like Put and leaves it to the next Flush to write it, because
// a gateway follows every namespace there is: a sync for each document would hold up
// its start by minutes. Of a namespace that is to be absent only the number is kept, so
// documents must come in the order of their numbers.
func (c *Catalogue) Note(m Message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.put(m, c.note)
}

// Flush makes durable what Note has taken and returns the number up to which the file
// has everything then. When it fails, the next Flush writes the whole file anew.
func (c *Catalogue) Flush() (number int64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.failed:
		err = c.rewrite()
	case len(c.pending) > 0:
		if err = c.write(nil); err == nil {
			err = c.compact()
		}
	}
	return c.number, err
}

// put checks a message and hands its records to keep. The lock is held.
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
	if old, ok := c.lines[d.Namespace]; ok && old.Number >= d.Number {
		return nil
	}
	signer := c.trusted.Only(token.Signer(m.Signature))
	return keep(record{Number: m.Number, Doc: m.Doc, Signature: m.Signature, Signer: signer.JWKS()})
}

// putKeys keeps what is trusted from now on. The lock is held.
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

// Forget drops the document of a namespace that is no more, durably. Its number
// stays counted in Number.
func (c *Catalogue) Forget(namespace string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.lines[namespace]; !ok {
		return nil
	}
	return c.append(record{Number: c.number, Forget: namespace})
}

// Number is the greatest that was ever kept: what to follow the stream after.
func (c *Catalogue) Number() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.number
}

// Trusted are the keys that were kept last.
func (c *Catalogue) Trusted() token.Set {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.trusted
}

// Close closes the file; what was put is durable already.
func (c *Catalogue) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.file.Close()
}

// append writes a record, syncs it and takes it. The lock is held.
func (c *Catalogue) append(r record) error {
	line, r, err := recode(r)
	if err != nil {
		return err
	}
	if c.failed {
		if err := c.rewrite(); err != nil {
			return fmt.Errorf("write the catalogue anew after an append failed: %w", err)
		}
	}
	if err := c.write(line); err != nil {
		return err
	}
	if err := c.apply(r); err != nil {
		return err
	}
	return c.compact()
}

// note takes a record that the next Flush writes. The lock is held.
func (c *Catalogue) note(r record) error {
	line, r, err := recode(r)
	if err != nil {
		return err
	}
	if len(r.Doc) > 0 && r.Number <= c.number {
		return nil // its namespace may have been forgotten since
	}
	if r.doc.Desired == Absent {
		return c.note(record{Number: r.Number, Forget: r.doc.Namespace})
	}
	if !c.failed { // else Flush writes all that is known
		c.pending = append(c.pending, line...)
	}
	return c.apply(r)
}

// write appends the pending lines and one more, and syncs them. The lock is held.
func (c *Catalogue) write(line []byte) error {
	text := append(c.pending, line...)
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
	return nil
}

// compact writes the file anew when too much of it is out of date. The lock is held.
func (c *Catalogue) compact() error {
	if c.size > 2*c.live+CatalogueSlackBytes {
		return c.rewrite()
	}
	return nil
}

// apply takes a record that is on disk, or will be at the next Flush.
func (c *Catalogue) apply(r record) error {
	c.number = max(c.number, r.Number)
	if old, ok := c.lines[r.doc.Namespace]; ok && len(r.Doc) > 0 && old.Number >= r.Number {
		return nil // a newer document is known, wherever in the file this one stands
	}
	if len(r.JWKS) > 0 {
		set, err := token.ParseSet(r.JWKS)
		if err != nil {
			return err
		}
		c.trusted = set
	}
	gone := r.Forget
	if len(r.Doc) > 0 {
		gone = r.doc.Namespace
	}
	c.live -= c.lines[gone].bytes
	delete(c.lines, gone)
	if len(r.Doc) > 0 {
		c.lines[gone] = r
		c.live += r.bytes
	}
	return nil
}

// rewrite replaces the file by what is known. The lock is held.
func (c *Catalogue) rewrite() error {
	c.failed = true // until it has worked
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
		_ = c.file.Close() // nobody can find it any more
	}
	c.file, c.size, c.failed, c.pending = file, len(text), false, nil
	return nil
}

const crcDigits = 8

// errTorn is a line that is not as it was meant to be written.
var errTorn = errors.New("its checksum does not fit")

func encodeLine(r record) ([]byte, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode a record of the catalogue: %w", err)
	}
	line := fmt.Appendf(nil, "%08x ", crc32.Checksum(text, castagnoli))
	return append(append(line, text...), '\n'), nil
}

// recode encodes a record and reads it back, so that memory holds what the file does.
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
