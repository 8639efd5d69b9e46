package image

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	for _, good := range [][]Part{nil, {{Name: "000007.sst", Size: 1}}, {{Name: "a"}, {Name: "b"}}, {{Name: strings.Repeat("n", MaxName)}}} {
		if err := Check(good); err != nil {
			t.Errorf("%v: %v", good, err)
		}
	}
	for _, name := range []string{"", ".", "..", "../x", "a/b", `a\b`, "a\x00", strings.Repeat("n", MaxName+1)} {
		if err := Check([]Part{{Name: name}}); err == nil {
			t.Errorf("a part named %q passes", name)
		}
	}
	for _, bad := range [][]Part{{{Name: "a", Size: -1}}, {{Name: "b"}, {Name: "a"}}, {{Name: "a"}, {Name: "a"}}} {
		if err := Check(bad); err == nil {
			t.Errorf("%v passes", bad)
		}
	}
	many := make([]Part, MaxParts+1)
	for i := range many {
		many[i].Name = fmt.Sprintf("%08d", i)
	}
	if err := Check(many[:MaxParts]); err != nil {
		t.Error(err)
	}
	if err := Check(many); err == nil {
		t.Error("too many parts pass")
	}
}

func TestVerify(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "x", "some bytes"} {
		p, err := Sum("p", strings.NewReader(text))
		if err != nil || p.Size != int64(len(text)) {
			t.Fatal(p, err)
		}
		for how, wrap := range map[string]func(io.Reader) io.Reader{
			"whole": func(r io.Reader) io.Reader { return r }, "by bytes": iotest.OneByteReader, "with its end": iotest.DataErrReader,
		} {
			if got, err := io.ReadAll(Verify(p, wrap(strings.NewReader(text)))); err != nil || string(got) != text {
				t.Errorf("%q %s: read %q, %v", text, how, got, err)
			}
			bad := []string{text + "y"}
			if text != "" {
				bad = append(bad, text[1:], "X"+text[1:], "")
			}
			for _, other := range bad {
				if got, err := io.ReadAll(Verify(p, wrap(strings.NewReader(other)))); !errors.Is(err, ErrDiffers) || string(got) == text && text != "" {
					t.Errorf("%q read for %q %s: %q, %v", other, text, how, got, err)
				}
			}
		}
	}
	p := Part{Name: "p", Size: 3}
	cause := errors.New("torn")
	if _, err := io.ReadAll(Verify(p, iotest.ErrReader(cause))); !errors.Is(err, cause) {
		t.Errorf("an error of the reader became %v", err)
	}
}
