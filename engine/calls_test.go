package engine

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine/pipeline"
)

// FuzzAnswer checks that no input makes the decoders panic, and that an accepted message keeps its content
// when it is encoded and decoded again.
func FuzzAnswer(f *testing.F) {
	f.Add(answer{outcome: outcomeResult, at: Position{Index: 300, Term: 7}, body: []byte("result")}.encode())
	f.Add(answer{outcome: outcomeRefused, body: encodeError(api.Errorf(api.NotFound, "no job"))}.encode())
	f.Add([]byte{byte(outcomeUnknown), 0x80})
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := decodeAnswer(data)
		if err != nil {
			return
		}
		again, err := decodeAnswer(a.encode())
		if diff := cmp.Diff(a, again, cmp.AllowUnexported(answer{}), cmpopts.EquateEmpty()); diff != "" || err != nil {
			t.Errorf("decoded again: %v (-once +twice):\n%s", err, diff)
		}
		var e *api.Error
		if err := decodeError(a.body); !errors.As(err, &e) || e.Code == "" {
			t.Errorf("an error without a code: %v", err)
		}
	})
}

func FuzzProposal(f *testing.F) {
	f.Add([]byte{0, 1, 'x'})
	f.Add(append([]byte{1}, make([]byte, 30)...))
	f.Add([]byte{1, 2})
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := decodeProposal(data)
		if err == nil && (p.op.Number == 0 || len(p.op.Bytes) > len(data)) {
			t.Errorf("%+v", p)
		}
	})
}

func FuzzStanding(f *testing.F) {
	f.Add(progress{term: 1, last: 1 << 40, applied: 3}.encode())
	f.Add(progress{term: 1, last: 2, joining: true}.encode())
	f.Add([]byte{0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := decodeProgress(data)
		if err != nil {
			return
		}
		if again, err := decodeProgress(s.encode()); err != nil || again != s {
			t.Errorf("%+v became %+v, %v", s, again, err)
		}
	})
}

// TestErrorsBetweenMembers checks that an error keeps its code, text, RetryAfter and details.
func TestErrorsBetweenMembers(t *testing.T) {
	t.Parallel()
	e := api.Errorf(api.Overloaded, "later")
	e.RetryAfter, e.Details = retryMost, map[string]any{"queue": "q"}
	got, ok := decodeError(encodeError(e)).(*api.Error) //nolint:errorlint // it answers nothing else
	if !ok || got.Code != e.Code || got.Message != e.Message {
		t.Fatalf("%+v became %+v", e, got)
	}
	if got.RetryAfter != e.RetryAfter || got.Details["queue"] != "q" {
		t.Errorf("after %v, details %v", got.RetryAfter, got.Details)
	}
	e.Details = map[string]any{"no": func() {}} // JSON cannot encode it
	if got := decodeError(encodeError(e)); api.CodeOf(got) != api.Overloaded {
		t.Errorf("%v", got)
	}
	if got := decodeError([]byte("{}")); api.CodeOf(got) != api.Internal {
		t.Errorf("%v", got)
	}
}

// TestForwardsBound checks the limits of forwarded ops exactly at the bounds.
func TestForwardsBound(t *testing.T) {
	t.Parallel()
	l := pipeline.Limits{BacklogOps: 3, BacklogBytes: 100}
	var f forwarding
	for _, size := range []int64{50, 50} {
		if err := f.enter(size, l); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.enter(1, l); api.CodeOf(err) != api.Overloaded {
		t.Errorf("101 of 100 bytes: %v", err)
	}
	if err := f.enter(0, l); err != nil {
		t.Errorf("the third of three: %v", err)
	}
	if err := f.enter(0, l); api.CodeOf(err) != api.Overloaded {
		t.Errorf("the fourth of three: %v", err)
	}
	f.leave(50)
	if err := f.enter(50, l); err != nil {
		t.Errorf("where there is room again: %v", err)
	}
}
