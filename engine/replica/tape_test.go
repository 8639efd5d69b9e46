package replica

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/image"
)

// tapeImage is an image of a tape. It has a part for the head and one for each op, so that two images of one
// tape share most parts.
type tapeImage struct {
	of    taped
	parts []image.Part
	bytes map[string][]byte
}

const headPart = "head"

func (m *tape) Image() (Image, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now
	if m.poses != nil {
		now.At.Incarnation = *m.poses
	}
	head := now
	head.Ops = nil
	data, err := json.Marshal(head)
	if err != nil {
		return nil, err
	}
	i := &tapeImage{of: now, bytes: map[string][]byte{headPart: data}}
	for n, o := range m.now.Ops {
		i.bytes[fmt.Sprintf("op-%08d", n)] = []byte(o)
	}
	for name, data := range i.bytes {
		i.parts = append(i.parts, image.Part{Name: name, Size: int64(len(data)), Sum: sha256.Sum256(data)})
	}
	slices.SortFunc(i.parts, func(a, b image.Part) int { return bytes.Compare([]byte(a.Name), []byte(b.Name)) })
	m.images++
	return i, nil
}

func (i *tapeImage) Applied() entry.Applied          { return i.of.At }
func (i *tapeImage) Configuration() ([]byte, uint64) { return i.of.Members, i.of.Index }
func (i *tapeImage) Close() error                    { return nil }
func (i *tapeImage) Parts() []image.Part             { return i.parts }

func (i *tapeImage) Open(name string) (io.ReadCloser, error) {
	data, ok := i.bytes[name]
	if !ok {
		return nil, errors.New("no such part")
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}

func (m *tape) Restore(from image.Source) error {
	var t taped
	var ops []string
	for _, p := range from.Parts() {
		data, err := readPart(from, p)
		if err != nil {
			return err
		}
		if p.Name != headPart {
			ops = append(ops, string(data))
		} else if err := json.Unmarshal(data, &t); err != nil {
			return err
		}
	}
	t.Ops = ops
	if claim, ok := from.(Positioned); ok && claim.Applied() != t.At {
		return fmt.Errorf("it claims %v and holds %v", claim.Applied(), t.At)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now, m.flushed = t, t
	return nil
}

func readPart(from image.Source, p image.Part) ([]byte, error) {
	r, err := from.Open(p.Name)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(image.Verify(p, r))
	return data, errors.Join(err, r.Close())
}
