package image

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"
)

// These constants bound a list of parts. A store of 1 TB has about 20,000 files.
const (
	MaxParts = 1 << 17
	MaxName  = 255 // bytes of a name
)

// Check validates a list of parts that another node sent. It refuses too many parts, negative sizes, names
// that are empty, too long or more than a plain file name, names that are not in ascending order, and
// duplicates.
func Check(parts []Part) error {
	if len(parts) > MaxParts {
		return fmt.Errorf("the snapshot has %d parts, more than %d", len(parts), MaxParts)
	}
	for i, p := range parts {
		switch {
		case p.Name == "" || len(p.Name) > MaxName || p.Name == "." || p.Name == ".." || strings.ContainsAny(p.Name, "/\\\x00"):
			return fmt.Errorf("the snapshot has a part named %q", p.Name)
		case p.Size < 0:
			return fmt.Errorf("part %q of the snapshot has %d bytes", p.Name, p.Size)
		case i > 0 && parts[i-1].Name >= p.Name:
			return fmt.Errorf("part %q of the snapshot comes after part %q", p.Name, parts[i-1].Name)
		}
	}
	return nil
}

// Sum reads the bytes of a new part and returns the part with its size and hash.
func Sum(name string, r io.Reader) (Part, error) {
	h := sha256.New()
	n, err := io.Copy(h, r)
	if err != nil {
		return Part{}, fmt.Errorf("read %s: %w", name, err)
	}
	return Part{Name: name, Size: n, Sum: [sha256.Size]byte(h.Sum(nil))}, nil
}

// ErrDiffers reports bytes that do not match the size or hash of their part.
var ErrDiffers = errors.New("the bytes are not those of the part")

// Verify returns a reader of the part's bytes. If r has too few bytes, too many, or different ones, the
// reader fails with an error that wraps ErrDiffers before it has returned all bytes of the part. The reader
// reads at most one byte beyond the part.
func Verify(p Part, r io.Reader) io.Reader {
	return &verifier{part: p, left: p.Size, r: r, hash: sha256.New()}
}

type verifier struct {
	part Part
	left int64
	r    io.Reader
	hash hash.Hash
	err  error // io.EOF once all bytes were read and match
}

func (v *verifier) Read(b []byte) (int, error) {
	if v.err != nil {
		return 0, v.err
	}
	if v.left == 0 { // an empty part
		v.err = v.end()
		return 0, v.err
	}
	if len(b) == 0 {
		return 0, nil
	}
	n, err := v.r.Read(b[:min(int64(len(b)), v.left)])
	v.hash.Write(b[:n])
	v.left -= int64(n)
	switch {
	case v.left == 0:
		if v.err = v.end(); v.err != io.EOF { //nolint:errorlint // end returns io.EOF unwrapped
			return 0, v.err
		}
	case err == io.EOF: //nolint:errorlint // readers return io.EOF unwrapped
		v.err = fmt.Errorf("%s ends %d bytes early: %w", v.part.Name, v.left, ErrDiffers)
	default:
		v.err = err
	}
	return n, v.keep()
}

// keep delays io.EOF until the next Read, so that the last bytes are delivered without an error.
func (v *verifier) keep() error {
	if v.err == io.EOF { //nolint:errorlint // end returns io.EOF unwrapped
		return nil
	}
	return v.err
}

// end checks the hash and that r has no more bytes. It returns io.EOF if both hold.
func (v *verifier) end() error {
	if !bytes.Equal(v.hash.Sum(nil), v.part.Sum[:]) {
		return fmt.Errorf("%s has another hash: %w", v.part.Name, ErrDiffers)
	}
	var more [1]byte
	switch n, err := io.ReadFull(v.r, more[:]); {
	case n > 0:
		return fmt.Errorf("%s has more than %d bytes: %w", v.part.Name, v.part.Size, ErrDiffers)
	case err != io.EOF: //nolint:errorlint // readers return io.EOF unwrapped
		return err
	}
	return io.EOF
}
