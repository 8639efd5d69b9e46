package allinone

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// opened opens a cloud in a directory, on a port of its own.
func opened(t *testing.T, dir string) (*Cloud, error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return Open(t.Context(), Config{DataDir: dir, Listener: listener, Version: "test", Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
}

// advice is the part of an error that names the file to remove.
var advice = regexp.MustCompile(`remove (\S+) and start again`)

// A start refuses a damaged credential file. After the user has followed the advice in the error to the
// letter, the cloud starts, serves the old jobs with the old key and takes new ones.
func TestTheAdviceForADamagedFileWorks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := opened(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, key := t.Context(), first.Access.APIKey
	job, err := first.client(t, key).Enqueue(ctx, api.EnqueueRequest{Queue: "q"})
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(ctx); err != nil {
		t.Fatal(err)
	}
	all := []string{EnvFile, "secrets/operator", "secrets/host", "secrets/gateway"}
	for _, files := range [][]string{{EnvFile}, {"secrets/host"}, {"secrets/gateway"}, {"secrets/operator"}, all} {
		for _, file := range files {
			damage(t, filepath.Join(dir, file))
		}
		c := followed(t, dir, len(files))
		if c.Access.APIKey != key {
			t.Errorf("%v: the key is another", files)
		}
		tenant := c.client(t, key)
		if _, err := tenant.Job(ctx, job.JobID, client.Read{}); err != nil {
			t.Errorf("%v: the job of the first start: %v", files, err)
		}
		if _, err := tenant.Enqueue(ctx, api.EnqueueRequest{Queue: "q"}); err != nil {
			t.Errorf("%v: %v", files, err)
		}
		if _, err := c.cloud(t).Orgs(ctx); err != nil {
			t.Errorf("%v: the cloud token: %v", files, err)
		}
		if err := c.Close(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// damage cuts a file in half.
func damage(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text[:len(text)/2], 0o600); err != nil {
		t.Fatal(err)
	}
}

// followed starts a cloud by following the advice of each refused start. There must be as many refused starts
// as damaged files.
func followed(t *testing.T, dir string, refused int) *Cloud {
	t.Helper()
	for range refused {
		c, err := opened(t, dir)
		if err == nil {
			c.Close(t.Context())
			t.Fatal("a start with a damaged file works")
		}
		found := advice.FindStringSubmatch(err.Error())
		if found == nil {
			t.Fatalf("no advice in: %v", err)
		}
		if err := os.Remove(found[1]); err != nil {
			t.Fatal(err)
		}
	}
	c, err := opened(t, dir)
	if err != nil {
		t.Fatalf("the advice was followed: %v", err)
	}
	return c
}

// A cloud reports ready once EnvFile exists for its user, and not before.
func TestReadyWaitsForTheEnvFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan *Cloud)
	go func() {
		defer close(done)
		c, err := Open(context.WithoutCancel(t.Context()), Config{DataDir: dir, Listener: listener, Version: "test", Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
		if err != nil {
			t.Error(err)
			return
		}
		done <- c
	}()
	for early := 0; ; {
		resp, err := http.Get("http://" + listener.Addr().String() + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusServiceUnavailable {
			early++
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, EnvFile)); err != nil || resp.StatusCode != http.StatusOK || early == 0 {
			t.Errorf("%s after %d refusals: %v", resp.Status, early, err)
		}
		break
	}
	if c := <-done; c != nil {
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
