package tenancy

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "rewrite golden files")

// TestMatrix fixes which role grants which permission: a change is a diff.
func TestMatrix(t *testing.T) {
	t.Parallel()
	var got bytes.Buffer
	fmt.Fprintf(&got, "%-14s", "")
	for _, r := range Roles() {
		fmt.Fprintf(&got, "%10s", r)
	}
	for _, p := range Permissions() {
		fmt.Fprintf(&got, "\n%-14s", p)
		for _, r := range Roles() {
			word := "-"
			if r.Grants(p) {
				word = "yes"
			}
			fmt.Fprintf(&got, "%10s", word)
		}
	}
	got.WriteByte('\n')
	const golden = "testdata/matrix.golden"
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
		t.Errorf("the matrix changed; -rewrite if that is meant:\n%s", got.Bytes())
	}
}

func TestEveryRoleHasARow(t *testing.T) {
	t.Parallel()
	if len(granted) != len(Roles()) {
		t.Errorf("the matrix has %d roles, Roles has %d", len(granted), len(Roles()))
	}
	for r, permissions := range granted {
		for _, p := range permissions {
			if !p.Valid() || !r.Valid() {
				t.Errorf("the matrix grants %s %s: one of them is not listed", r, p)
			}
		}
	}
}
