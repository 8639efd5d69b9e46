package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// shop serves a release like get.corvo.dev.
type shop struct {
	*httptest.Server
	archive string // path of this platform's archive, below the URL
}

// open publishes a release. spoil may give another answer for a path.
func open(t *testing.T, spoil func(w http.ResponseWriter, path string, data []byte) bool) *shop {
	t.Helper()
	files := publish(t, standIn(t, "v1.2.3"))
	s := &shop{archive: fmt.Sprintf("1.2.3/corvo_1.2.3_%s_%s.tar.gz", runtime.GOOS, runtime.GOARCH)}
	if files[s.archive] == nil {
		t.Skipf("there are no releases for %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := strings.TrimPrefix(r.URL.Path, "/")
		if path == "" {
			path = "install.sh"
		}
		data, ok := files[path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		if spoil == nil || !spoil(w, path, data) {
			_, _ = w.Write(data)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// install runs the script as the documented line does, with a PATH that has only some programs; nil = all.
// dir may hold an earlier installation.
func install(t *testing.T, s *shop, dir string, programs []string, args ...string) (out string, err error) {
	t.Helper()
	script, err := os.Open("../install.sh")
	if err != nil {
		t.Fatal(err)
	}
	defer script.Close()
	cmd := exec.Command("sh", append([]string{"-s", "--", "--dir", dir}, args...)...)
	cmd.Stdin = script
	work := t.TempDir()
	cmd.Env = append(os.Environ(), "CORVO_BASE_URL="+s.URL, "TMPDIR="+work)
	if programs != nil {
		cmd.Env = append(cmd.Env, "PATH="+onlyPrograms(t, programs))
	}
	text, err := cmd.CombinedOutput()
	if left, _ := filepath.Glob(filepath.Join(work, "*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	return string(text), err
}

// onlyPrograms returns a folder with links to programs of this machine.
func onlyPrograms(t *testing.T, programs []string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range programs {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Skipf("no %s on this machine", name)
		}
		if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// plain lists the programs that the script requires.
var plain = []string{"sh", "cat", "uname", "mkdir", "mktemp", "rm", "tar", "gzip", "cp", "chmod", "mv", "cut"}

func with(programs ...string) []string { return append(programs, plain...) }

func TestInstall(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		programs []string
		args     []string
	}{
		{name: "the newest"},
		{name: "a version", args: []string{"--version", "1.2.3"}},
		{name: "a version by its tag", args: []string{"--version", "v1.2.3"}},
		{name: "curl and sha256sum", programs: with("curl", "sha256sum")},
		{name: "wget and shasum", programs: with("wget", "shasum", "perl")},
		{name: "wget and openssl", programs: with("wget", "openssl")},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "new", "bin dir")
			out, err := install(t, open(t, nil), dir, c.programs, c.args...)
			if err != nil || !strings.Contains(out, "corvo v1.2.3 is in "+dir) {
				t.Fatalf("%v\n%s", err, out)
			}
			if version, err := exec.Command(filepath.Join(dir, "corvo"), "version").Output(); err != nil || string(version) != "v1.2.3\n" {
				t.Errorf("the installed one answers %q, %v", version, err)
			}
		})
	}
}

func TestInstallRefuses(t *testing.T) {
	t.Parallel()
	archive := func(spoil func(w http.ResponseWriter, data []byte)) func(http.ResponseWriter, string, []byte) bool {
		return func(w http.ResponseWriter, path string, data []byte) bool {
			if strings.HasSuffix(path, ".tar.gz") {
				spoil(w, data)
				return true
			}
			return false
		}
	}
	for _, c := range []struct {
		name     string
		spoil    func(w http.ResponseWriter, path string, data []byte) bool
		programs []string
		args     []string
		why      string
	}{
		{
			name: "another archive", why: "differs from the release",
			spoil: archive(func(w http.ResponseWriter, data []byte) { _, _ = w.Write(append(bytes.Clone(data), 0)) }),
		},
		{
			name: "half an archive", why: "differs from the release",
			spoil: archive(func(w http.ResponseWriter, data []byte) { _, _ = w.Write(data[:len(data)/2]) }),
		},
		{
			name: "an archive that breaks off", why: "cannot download", programs: with("curl", "sha256sum"),
			spoil: archive(func(w http.ResponseWriter, data []byte) {
				w.Header().Set("Content-Length", fmt.Sprint(len(data)))
				_, _ = w.Write(data[:len(data)/2])
			}),
		},
		{
			name: "a list without the archive", why: "the release 1.2.3 has no corvo_1.2.3_",
			spoil: func(w http.ResponseWriter, path string, _ []byte) bool { return strings.HasSuffix(path, "SHA256SUMS") },
		},
		{name: "a version that is none", args: []string{"--version", "9.9.9"}, why: "cannot download"},
		{name: "a version that is a path", args: []string{"--version", "../1.2.3"}, why: "is not a version"},
		{
			name: "a newest version that is none", why: "is not a version",
			spoil: func(w http.ResponseWriter, path string, _ []byte) bool {
				if path != "latest" {
					return false
				}
				fmt.Fprintln(w, "<html>")
				return true
			},
		},
		{name: "nothing to download with", programs: with("sha256sum"), why: "curl or wget is needed"},
		{name: "nothing to check with", programs: with("curl"), why: "to check the download"},
		{name: "an option that is none", args: []string{"--prefix", "/usr"}, why: "unknown option --prefix"},
		{name: "an option without its value", args: []string{"--version"}, why: "--version needs a value"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			before := []byte("#!/bin/sh\necho before\n")
			if err := os.WriteFile(filepath.Join(dir, "corvo"), before, 0o755); err != nil {
				t.Fatal(err)
			}
			out, err := install(t, open(t, c.spoil), dir, c.programs, c.args...)
			if err == nil || !strings.Contains(out, c.why) {
				t.Errorf("%v, and not %q:\n%s", err, c.why, out)
			}
			after, err := os.ReadFile(filepath.Join(dir, "corvo"))
			if err != nil || !bytes.Equal(after, before) {
				t.Errorf("what was installed before is now %q, %v", after, err)
			}
			if all, _ := os.ReadDir(dir); len(all) != 1 {
				t.Errorf("left behind in %s: %v", dir, all)
			}
		})
	}
}

// TestHalfAScript runs the part of the script that has arrived when its download breaks off. That part must
// do nothing, wherever it ends.
func TestHalfAScript(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	script, err := os.ReadFile("../install.sh")
	if err != nil {
		t.Fatal(err)
	}
	whole := strings.TrimSuffix(string(script), "\nmain \"$@\"\n")
	if len(whole) == len(script) {
		t.Fatal("the script does not end with the call of what it does")
	}
	for end := 0; end <= len(whole); end += max(1, len(whole)/25) {
		dir := t.TempDir()
		cmd := exec.Command("sh", "-s", "--", "--dir", dir)
		cmd.Stdin = strings.NewReader(whole[:end])
		cmd.Env = append(os.Environ(), "CORVO_BASE_URL="+s.URL)
		_ = cmd.Run() // half a script may well be malformed
		if all, _ := os.ReadDir(dir); len(all) != 0 {
			t.Errorf("after %d bytes of it, there is %v", end, all)
		}
	}
}

// TestTheDocumentedLine pipes the script from the server into a shell.
func TestTheDocumentedLine(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("no curl on this machine")
	}
	s, dir := open(t, nil), t.TempDir()
	cmd := exec.Command("sh", "-c", "curl -fsSL "+s.URL+" | sh")
	cmd.Env = append(os.Environ(), "CORVO_BASE_URL="+s.URL, "CORVO_INSTALL_DIR="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(dir, "corvo")); err != nil {
		t.Error(err)
	}
}
