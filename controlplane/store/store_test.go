package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/tenancy/keyring"
)

// waitLimit bounds how long a test waits on a machine whose disk stalls.
const waitLimit = time.Minute

func openStore(t testing.TB, dir string) *Store {
	t.Helper()
	s, err := Open(Config{Dir: dir, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) }) // a test that cares has looked
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	if err := s.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	return s
}

func propose[R any](t testing.TB, s *Store, o op) R {
	t.Helper()
	r, err := Propose[R](t.Context(), s, o)
	if err != nil {
		t.Fatalf("%T: %v", o, err)
	}
	return r
}

// history proposes one op of every kind and returns the rows of the state afterwards.
func history(t testing.TB, s *Store) []string {
	t.Helper()
	propose[*CreateOrgResult](t, s, newOrg("acme"))
	propose[*CreateHostResult](t, s, newHost("h1"))
	propose[*JoinHostResult](t, s, start("h1", "h1"))
	propose[*JoinHostResult](t, s, join("h1", "http://h1"))
	propose[*CreateNamespaceResult](t, s, withKey(newNamespace("org_acme", "prod"), "once"))
	propose[*PlaceNamespaceResult](t, s, place("prod", "h1"))
	propose[*FoundNamespaceResult](t, s, found("prod"))
	propose[*SettleNamespaceResult](t, s, settle("prod"))
	propose[*CreateCredentialResult](t, s, newKey(keyring.Namespace, "ns_prod", "k1"))
	propose[*ApplyUsageResult](t, s, frame("ns_prod", 1, 3, usageRow("q", "m", 1)))
	propose[*AddSigningKeyResult](t, s, &AddSigningKey{Meta: by("op"), Id: "sk1", Seed: hash("seed")})
	return dump(t, s.machine)
}

// Every acknowledged change is there after a clean restart, and the log and the state are at the same entry.
func TestReopen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openStore(t, dir)
	want := history(t, s)
	clockNs := s.ClockNs()
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, dir)
	if diff := difference(want, dump(t, s.machine)); diff != "" {
		t.Errorf("after a restart: %s", diff)
	}
	keys, err := s.SigningKeys(t.Context())
	if err != nil || len(keys) != 1 {
		t.Fatalf("signing keys are %+v, %v", keys, err)
	}
	if k := keys[0]; k.ID != "sk1" || string(k.Seed) != string(hash("seed")) || k.TrustedUntilNs != 0 {
		t.Errorf("the signing key is %+v", k)
	}
	if s.ClockNs() < clockNs {
		t.Error("the clock went back")
	}
	if err := s.VerifyAudit(t.Context()); err != nil {
		t.Error(err)
	}
}

// copyDir copies a directory in its state on disk.
func copyDir(t testing.TB, from string, leaveOut ...string) string {
	t.Helper()
	to := t.TempDir()
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, name), 0o700)
		}
		for _, suffix := range leaveOut {
			if strings.HasSuffix(name, suffix) {
				return nil
			}
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), data, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// A killed process loses no acknowledged change. A power cut loses SQLite's unsynced log, but raft's log
// holds the same entries.
func TestKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openStore(t, dir)
	early := history(t, s)
	if err := s.group.Snapshot(); err != nil { // the ops below follow a truncated log
		t.Fatal(err)
	}
	propose[*CreateNamespaceResult](t, s, newNamespace("org_acme", "late"))
	propose[*RevokeCredentialResult](t, s, &RevokeCredential{Meta: by("token"), Id: "k1"})
	propose[*ApplyUsageResult](t, s, frame("ns_prod", 4, 4, usageRow("q", "m", 7)))
	want := dump(t, s.machine)
	if difference(early, want) == "" {
		t.Fatal("nothing was written after the snapshot")
	}
	for name, leaveOut := range map[string][]string{
		"killed":          {"-shm"},
		"power cut":       {"-shm", "-wal"},
		"shm left behind": {},
	} {
		t.Run(name, func(t *testing.T) {
			killed := openStore(t, copyDir(t, dir, leaveOut...))
			if diff := difference(want, dump(t, killed.machine)); diff != "" {
				t.Errorf("%s", diff)
			}
			if _, ok := killed.Credential("k1"); ok {
				t.Error("a revoked key is back")
			}
		})
	}
}

// The store refuses a state without entries that the log no longer holds, because continuing would lose
// acknowledged changes.
func TestOldStateIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openStore(t, dir)
	old := copyDir(t, filepath.Join(dir, "state"), "-shm")
	history(t, s)
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(dir, "state")
	if err := errors.Join(os.RemoveAll(state), os.Rename(old, state)); err != nil {
		t.Fatal(err)
	}
	_, err := Open(Config{Dir: dir, Logger: slog.New(slog.DiscardHandler)})
	if refused(err, api.Unhealthy) != nil {
		t.Error(err)
	}
	// A missing file is refused too: it must not become an empty state.
	if err := os.Remove(filepath.Join(state, stateName(1))); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Config{Dir: dir, Logger: slog.New(slog.DiscardHandler)}); refused(err, api.Unhealthy) != nil {
		t.Error(err)
	}
}

// Signing keys are in the log and in the state, so only the owner may read them.
func TestNobodyElseMayRead(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "control")
	if err := os.MkdirAll(filepath.Join(dir, "state"), 0o755); err != nil {
		t.Fatal(err)
	}
	openStore(t, dir)
	for _, name := range []string{"raft", "state"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s is %v, %v", name, info.Mode(), err)
		}
	}
}

func TestOneProcessAtATime(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	openStore(t, dir)
	if _, err := Open(Config{Dir: dir}); refused(err, api.Conflict) != nil {
		t.Error(err)
	}
	if _, err := Open(Config{}); refused(err, api.ValidationError) != nil {
		t.Error(err)
	}
}

// A caller sees the effect of its own Propose, even beside concurrent callers.
func TestReadsSeeTheirWrites(t *testing.T) {
	t.Parallel()
	s := openStore(t, t.TempDir())
	propose[*CreateOrgResult](t, s, newOrg("acme"))
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 10 {
				name := fmt.Sprintf("n%d-%d", i, j)
				if _, err := Propose[*CreateNamespaceResult](t.Context(), s, newNamespace("org_acme", name)); err != nil {
					t.Error(err)
					return
				}
				n, err := s.Namespace(t.Context(), "org_acme", name)
				if err != nil || n.Name != name {
					t.Errorf("%s is %+v, %v", name, n, err)
					return
				}
				docs, err := s.Docs(t.Context(), n.DocNumber-1, 1)
				if err != nil || len(docs) != 1 || docs[0].Name != name {
					t.Errorf("the document of %s is %+v, %v", name, docs, err)
					return
				}
				key := newKey(keyring.Namespace, "ns_"+name, "k-"+name)
				if _, err := Propose[*CreateCredentialResult](t.Context(), s, key); err != nil {
					t.Error(err)
					return
				}
				if _, ok := s.Credential("k-" + name); !ok {
					t.Errorf("the key of %s is not there", name)
				}
			}
		})
	}
	all.Wait()
}

// A follower that reads all documents and then waits for the channel it received misses no change.
func TestChanges(t *testing.T) {
	t.Parallel()
	s := openStore(t, t.TempDir())
	propose[*CreateOrgResult](t, s, newOrg("acme"))
	const total = 50
	var proposer sync.WaitGroup
	defer proposer.Wait() // the last document is seen before its proposer is answered
	proposer.Go(func() {
		for i := range total {
			if _, err := Propose[*CreateNamespaceResult](t.Context(), s, newNamespace("org_acme", fmt.Sprintf("n%d", i))); err != nil {
				t.Error(err)
				return
			}
		}
	})
	late := time.After(waitLimit)
	seen, after := 0, int64(0)
	for seen < total {
		number, changed := s.Changes()
		docs, err := s.Docs(t.Context(), after, MaxPage)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range docs {
			seen, after = seen+1, d.Number
		}
		if after >= number && seen < total {
			select {
			case <-changed:
			case <-late:
				t.Fatalf("saw %d of %d", seen, total)
			}
		}
	}
}

// Refusals of the state and of the pipeline are returned as *api.Error, and so are failed reads.
func TestErrors(t *testing.T) {
	t.Parallel()
	s := openStore(t, t.TempDir())
	if _, err := Propose[*CreateNamespaceResult](t.Context(), s, newNamespace("org_none", "x")); refused(err, api.NotFound) != nil {
		t.Error(err)
	}
	if _, err := Propose[*CreateOrgResult](t.Context(), s, &CreateOrg{}); refused(err, api.ValidationError) != nil {
		t.Error(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Orgs(ended, "", 1); refused(err, api.LeaderUnavailable) != nil {
		t.Error(err)
	}
	if err := s.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	if s.Err() != nil {
		t.Error(s.Err())
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Orgs(t.Context(), "", 1); refused(err, api.LeaderUnavailable) != nil {
		t.Error(err)
	}
	if _, err := Propose[*CreateOrgResult](t.Context(), s, newOrg("acme")); refused(err, api.LeaderUnavailable) != nil {
		t.Error(err)
	}
	if _, err := s.LastUsage(t.Context(), billing.Source{}); refused(err, api.LeaderUnavailable) != nil {
		t.Error(err)
	}
}

// An unknown op, which a newer binary may have written, stops the store. The store then refuses writes with
// the reason, also after a restart. Reads still work.
func TestUnknownOpStops(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openStore(t, dir)
	want := history(t, s)
	if _, _, err := engine.Propose[any](t.Context(), s.group, raw{number: 99}); refused(err, api.Unhealthy) != nil {
		t.Errorf("the unknown op answers %v", err)
	}
	if _, err := Propose[*CreateOrgResult](t.Context(), s, newOrg("late")); refused(err, api.Unhealthy) != nil {
		t.Errorf("the next op answers %v", err)
	}
	if err := s.Err(); err == nil || !strings.Contains(err.Error(), "op number 99 is not known") {
		t.Errorf("the store says %v", err)
	}
	if diff := difference(want, dump(t, s.machine)); diff != "" {
		t.Errorf("the state has changed: %s", diff)
	}
	_ = s.Close(t.Context()) // a store that has failed cannot be made durable
	s, err := Open(Config{Dir: dir, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	if err := s.Ready(ctx); refused(err, api.Unhealthy) != nil {
		t.Errorf("after a restart it is ready with %v", err)
	}
	_ = s.Close(t.Context())
}
