package tenancy

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "rewrite golden files")

// TestMatrix compares the permissions of each role with a golden file, so that a change is a diff.
func TestMatrix(t *testing.T) {
	t.Parallel()
	var got bytes.Buffer
	all := slices.Concat(Roles(), TokenRoles(), CloudRoles())
	fmt.Fprintf(&got, "%-16s", "")
	for _, r := range all {
		fmt.Fprintf(&got, "%15s", r)
	}
	for _, p := range Permissions() {
		fmt.Fprintf(&got, "\n%-16s", p)
		for _, r := range all {
			word := "-"
			if r.Grants(p) {
				word = "yes"
			}
			fmt.Fprintf(&got, "%15s", word)
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
	if listed := len(Roles()) + len(TokenRoles()) + len(CloudRoles()); len(granted) != listed {
		t.Errorf("the matrix has %d roles, the lists have %d", len(granted), listed)
	}
	for r, permissions := range granted {
		for _, p := range permissions {
			if !p.Valid() || !r.Valid() && !slices.Contains(slices.Concat(TokenRoles(), CloudRoles()), r) {
				t.Errorf("the matrix grants %s %s: one of them is not listed", r, p)
			}
		}
	}
}
