package api

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "rewrite golden files")

// TestCodes compares the codes with a golden file, so that a change is a diff.
func TestCodes(t *testing.T) {
	t.Parallel()
	var got bytes.Buffer
	for _, c := range Codes() {
		retryable := ""
		if c.Retryable() {
			retryable = " retryable"
		}
		fmt.Fprintf(&got, "%d %s%s\n", c.Status(), c, retryable)
	}
	const golden = "testdata/codes.golden"
	if *rewrite {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("the codes changed; -rewrite if that is meant:\n%s", got.Bytes())
	}
}

func TestCodesAreWellFormed(t *testing.T) {
	t.Parallel()
	if !slices.IsSorted(Codes()) {
		t.Error("Codes is not sorted")
	}
	for _, c := range Codes() {
		if c == "" || strings.Trim(string(c), "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") != "" {
			t.Errorf("%q is not upper case words", c)
		}
		if c.Status() < 400 || http.StatusText(c.Status()) == "" {
			t.Errorf("%s has status %d", c, c.Status())
		}
		// A retryable status is either "too many" or "not now".
		if again := c.Status() == http.StatusTooManyRequests || c.Status() == http.StatusServiceUnavailable; again != c.Retryable() {
			t.Errorf("%s has status %d and retryable %v", c, c.Status(), c.Retryable())
		}
	}
	if unknown := Code("NO_SUCH"); unknown.Status() != http.StatusInternalServerError || unknown.Retryable() {
		t.Error("an unknown code is not a plain 500")
	}
}

func TestErrorf(t *testing.T) {
	t.Parallel()
	e := Errorf(Conflict, "queue %s: %w", "q", io.ErrUnexpectedEOF)
	if e.Error() != "CONFLICT: queue q: unexpected EOF" || e.Message != "queue q: unexpected EOF" {
		t.Errorf("says %q with message %q", e.Error(), e.Message)
	}
	if !errors.Is(e, io.ErrUnexpectedEOF) {
		t.Error("lost its cause")
	}
	if Errorf(Conflict, "plain").Unwrap() != nil {
		t.Error("has a cause that was not given")
	}
}

func TestWrapHidesItsCause(t *testing.T) {
	t.Parallel()
	e := Wrap(io.ErrUnexpectedEOF, Internal, "the store is closed")
	if strings.Contains(e.Error(), "EOF") || !errors.Is(e, io.ErrUnexpectedEOF) {
		t.Errorf("%q shows its cause, or has lost it", e.Error())
	}
}

func TestIs(t *testing.T) {
	t.Parallel()
	missing := fmt.Errorf("load: %w", Errorf(NotFound, "no job x"))
	if !errors.Is(missing, &Error{Code: NotFound}) {
		t.Error("does not match its code")
	}
	if errors.Is(missing, &Error{Code: Conflict}) {
		t.Error("matches another code")
	}
	if errors.Is(missing, Errorf(NotFound, "no job y")) {
		t.Error("matches an error of the same code that says something else")
	}
}

func TestCodeOf(t *testing.T) {
	t.Parallel()
	for want, err := range map[Code]error{
		"":       nil,
		NotFound: fmt.Errorf("outer: %w", Errorf(NotFound, "inner")),
		Internal: io.EOF,
	} {
		if got := CodeOf(err); got != want {
			t.Errorf("code of %v is %q, want %q", err, got, want)
		}
	}
}
