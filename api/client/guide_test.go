package client_test

import (
	"os"
	"strings"
	"testing"
)

// Every block of Go code in the guide occurs in the examples.
func TestTheGuideIsTrue(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../docs/workers.md")
	if err != nil {
		t.Fatal(err)
	}
	examples, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(guide), "```go\n")[1:]
	if len(blocks) < 3 {
		t.Fatalf("the guide has %d blocks of Go", len(blocks))
	}
	for _, block := range blocks {
		if code, _, _ := strings.Cut(block, "```"); !strings.Contains(string(examples), code) {
			t.Errorf("no example has\n%s", code)
		}
	}
}
