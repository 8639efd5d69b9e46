package cell

import (
	"errors"
	"testing"
)

// TestAnOpeningIsPassedOn checks that the result of an opening that ends in time is returned unchanged.
func TestAnOpeningIsPassedOn(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	c := &Cell{}
	if got, err := unlessFull(t.TempDir(), func() (*Cell, error) { return c, nil }); got != c || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := unlessFull(t.TempDir(), func() (*Cell, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
}
