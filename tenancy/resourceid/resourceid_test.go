package resourceid_test

import (
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/corvo/corvo/tenancy/resourceid"
)

func TestIDsSortByCreation(t *testing.T) {
	t.Parallel()
	older, err := resourceid.New(rand.Reader, "ns_", 1_700_000_000_000e6)
	if err != nil {
		t.Fatal(err)
	}
	newer, err := resourceid.New(rand.Reader, "ns_", 1_700_000_000_001e6)
	if err != nil {
		t.Fatal(err)
	}
	if older >= newer || !resourceid.Has(older, "ns_") || !resourceid.Has(newer, "ns_") {
		t.Errorf("ids %q and %q", older, newer)
	}
	if _, err := resourceid.New(iotest.ErrReader(errors.New("no bits")), "ns_", 1); err == nil {
		t.Error("an id without random bits")
	}
}

func TestHasRefusesOtherForms(t *testing.T) {
	t.Parallel()
	id, err := resourceid.New(rand.Reader, "store_", 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, other := range []string{"", "store_", strings.ToUpper(id), id[:len(id)-1], id + "0", "ns_" + id[6:], id[:len(id)-1] + "u", id[:len(id)-1] + "1", " " + id} {
		if resourceid.Has(other, "store_") {
			t.Errorf("%q is taken for an id", other)
		}
	}
}
