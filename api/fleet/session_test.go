package fleet

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestSession(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "session")
	now := time.Date(2026, 5, 17, 12, 0, 0, 5, time.UTC)
	s := Session{Credential: "gwc_1", ID: "gw_1", HostToken: "secret", Ends: now.Add(time.Hour), LastHeartbeat: now, Number: 7}
	if err := s.Write(path); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadSession(path); err != nil || got != s {
		t.Errorf("%+v, %v", got, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	for text, want := range map[string]string{
		"":               "damaged",
		"{":              "damaged",
		`{"format":2}`:   "format 2",
		`{"format":1}`:   "lacks a field",
		`{"formatt":1}`:  "unknown field",
		`{"format":"1"}`: "damaged",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadSession(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
