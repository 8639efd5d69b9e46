package store

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/corvo/corvo/api/fault"
)

// problems collects the faults of an op or of a query. Its zero value is empty.
type problems struct{ fault.List }

// add records err for a field. A nil err is no fault.
func (p *problems) add(field string, err error) {
	if err != nil {
		p.Invalid(field, "%v", err)
	}
}

func (p *problems) err() error { return p.Err() }

// check checks the Meta of an op. A nil Meta counts as empty.
func (m *Meta) check(p *problems) {
	p.add("meta.principal", checkText(m.GetPrincipal(), MaxPrincipal))
	p.add("meta.trace", checkText(m.GetTrace(), MaxTrace))
	key := m.GetIdempotency()
	if key == nil {
		return
	}
	p.add("Idempotency-Key", checkWord(key.Key, MaxIdempotencyKey))
	p.add("meta.idempotency.request_hash", checkSize(key.RequestHash, sha256.Size))
}

// checkUTF8 checks the length and the encoding of a text that may hold control characters.
func checkUTF8(s string, most int) error {
	if len(s) > most {
		return fmt.Errorf("has %d bytes; at most %d are allowed", len(s), most)
	}
	if !utf8.ValidString(s) {
		return errors.New("is not valid UTF-8")
	}
	return nil
}

// checkText checks the length and the encoding of a text that may be empty, and refuses ASCII control
// characters.
func checkText(s string, most int) error {
	if err := checkUTF8(s, most); err != nil {
		return err
	}
	if strings.ContainsFunc(s, func(c rune) bool { return c < ' ' || c == 0x7f }) {
		return errors.New("has a control character")
	}
	return nil
}

// checkWord checks a text like checkText, and refuses an empty one.
func checkWord(s string, most int) error {
	if s == "" {
		return errors.New("is missing")
	}
	return checkText(s, most)
}

// checkID checks the length and the characters of an id.
func checkID(s string) error {
	if err := checkWord(s, MaxID); err != nil {
		return err
	}
	for i := range len(s) {
		if c := s[i]; !lower(c) && !digit(c) && !('A' <= c && c <= 'Z') && c != '_' && c != '-' {
			return fmt.Errorf("holds %q; an id has letters, digits, _ and -", c)
		}
	}
	return nil
}

// checkName checks a name that people choose, of an organisation, a namespace or a host.
func checkName(s string) error {
	wrong := s == "" || len(s) > MaxName || !lower(s[0])
	for i := range len(s) {
		wrong = wrong || !lower(s[i]) && !digit(s[i]) && s[i] != '-'
	}
	if wrong {
		return fmt.Errorf("is not a name: it must have 1 to %d lower-case letters, digits and -, and start with a letter", MaxName)
	}
	return nil
}

func checkSize(b []byte, want int) error {
	if len(b) != want {
		return fmt.Errorf("has %d bytes, it takes %d", len(b), want)
	}
	return nil
}

func checkPositive(n int64) error {
	if n <= 0 {
		return fmt.Errorf("is %d, it starts at 1", n)
	}
	return nil
}

func checkNotNegative(n int64) error {
	if n < 0 {
		return fmt.Errorf("is negative")
	}
	return nil
}

func lower(c byte) bool { return 'a' <= c && c <= 'z' }
func digit(c byte) bool { return '0' <= c && c <= '9' }
