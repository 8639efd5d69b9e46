package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// standIn returns a release whose binaries are scripts that print the version.
func standIn(t *testing.T, version string) *release {
	t.Helper()
	r, err := newRelease(version, "", "1750000000")
	if err != nil {
		t.Fatal(err)
	}
	r.root, r.out = "../..", t.TempDir()
	r.build = func(_ context.Context, r *release, product string, _ platform, path string) error {
		return os.WriteFile(path, fmt.Appendf(nil, "#!/bin/sh\n# %s\n[ \"$1\" = version ] && echo v%s\n", product, r.number), 0o755)
	}
	return r
}

// publish runs a release and returns all files that it wrote.
func publish(t *testing.T, r *release) map[string][]byte {
	t.Helper()
	if err := r.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	err := filepath.WalkDir(r.out, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(r.out, path)
		if err != nil {
			return err
		}
		files[name], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestTwoReleasesAreTheSameBytes(t *testing.T) {
	t.Parallel()
	one, two := publish(t, standIn(t, "v1.2.3")), publish(t, standIn(t, "1.2.3"))
	// 3 tarballs and a zip each, the manifest, two lists; the script and the newest version.
	if want := len(platforms)*4 + 3 + 2; len(one) != want || len(two) != want {
		t.Fatalf("there are %d and %d files, want %d", len(one), len(two), want)
	}
	for name, data := range one {
		if !bytes.Equal(data, two[name]) {
			t.Errorf("%s differs from one release to the other", name)
		}
	}
}

func TestAReleaseMayBeMadeAgain(t *testing.T) {
	t.Parallel()
	r := standIn(t, "v1.2.3")
	first := publish(t, r)
	if again := publish(t, r); len(again) != len(first) {
		t.Errorf("the second run left %d files, the first %d", len(again), len(first))
	}
	r.build = func(context.Context, *release, string, platform, string) error { return errors.New("no compiler") }
	if err := r.run(t.Context()); err == nil || !strings.Contains(err.Error(), "corvo for linux/amd64: no compiler") {
		t.Errorf("a build that fails: %v", err)
	}
	if after := publish(t, standIn(t, "v1.2.3")); len(after) != len(first) {
		t.Errorf("%d files, want %d", len(after), len(first))
	}
	if left, _ := filepath.Glob(filepath.Join(r.out, ".release-*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	if _, err := os.Stat(filepath.Join(r.out, "1.2.3", "SHA256SUMS")); err != nil {
		t.Errorf("a build that failed took the release that was there: %v", err)
	}
}

func TestWhatIsInATarball(t *testing.T) {
	t.Parallel()
	files := publish(t, standIn(t, "v1.2.3"))
	zipped, err := gzip.NewReader(bytes.NewReader(files["1.2.3/corvo_1.2.3_linux_arm64.tar.gz"]))
	if err != nil {
		t.Fatal(err)
	}
	if zipped.Name != "" || !zipped.ModTime.IsZero() {
		t.Errorf("the gzip header has the name %q and the time %v", zipped.Name, zipped.ModTime)
	}
	var got []string
	for packed := tar.NewReader(zipped); ; {
		h, err := packed.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%o %s", h.Mode, h.Name))
		if owner := fmt.Sprintf("%d:%d (%s:%s)", h.Uid, h.Gid, h.Uname, h.Gname); owner != "0:0 (:)" {
			t.Errorf("%s belongs to %s", h.Name, owner)
		}
		if h.ModTime.Unix() != 1750000000 {
			t.Errorf("%s is from %v", h.Name, h.ModTime)
		}
	}
	const folder = "corvo_1.2.3_linux_arm64/"
	want := []string{"644 " + folder + "LICENSE", "644 " + folder + "README.md", "755 " + folder + "corvo", "644 " + folder + "corvo.service", "644 " + folder + "corvo.yaml"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("it has %q, want %q", got, want)
	}
}

func TestWhatTerraformWants(t *testing.T) {
	t.Parallel()
	files := publish(t, standIn(t, "v1.2.3-rc.1"))
	const base = "1.2.3-rc.1/terraform-provider-corvo_1.2.3-rc.1_"
	data := files[base+"darwin_arm64.zip"]
	packed, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range packed.File {
		got = append(got, fmt.Sprint(f.Mode(), " ", f.Name))
		if f.Modified.Unix() != 1750000000 {
			t.Errorf("%s is from %v", f.Name, f.Modified)
		}
	}
	if want := []string{"-rw-r--r-- LICENSE", "-rwxr-xr-x terraform-provider-corvo_v1.2.3-rc.1"}; strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("it has %q, want %q", got, want)
	}
	sums := string(files[base+"SHA256SUMS"])
	if lines := strings.Count(sums, "\n"); lines != len(platforms)+1 {
		t.Errorf("the registry's list has %d lines, want those of the zips and of the manifest:\n%s", lines, sums)
	}
	if line := fmt.Sprintf("%x  terraform-provider-corvo_1.2.3-rc.1_darwin_arm64.zip\n", sha256.Sum256(data)); !strings.Contains(sums, line) {
		t.Errorf("the list lacks %q:\n%s", line, sums)
	}
	if _, ok := files["latest"]; ok {
		t.Error("a preview is what is installed where no version is asked for")
	}
}

func TestEveryArchiveIsListed(t *testing.T) {
	t.Parallel()
	files := publish(t, standIn(t, "v1.2.3"))
	sums := string(files["1.2.3/SHA256SUMS"])
	for name, data := range files {
		folder, base := filepath.Split(name)
		if folder == "" || strings.HasSuffix(base, "SHA256SUMS") {
			continue
		}
		if line := fmt.Sprintf("%x  %s\n", sha256.Sum256(data), base); !strings.Contains(sums, line) {
			t.Errorf("SHA256SUMS lacks %q", line)
		}
	}
}

func TestWhatIsNoRelease(t *testing.T) {
	t.Parallel()
	for _, no := range []struct{ version, platforms, epoch, why string }{
		{"93400c2", "", "1", "must be one like v1.2.3"},
		{"", "", "1", "must be one like v1.2.3"},
		{"v1.2", "", "1", "must be one like v1.2.3"},
		{"v1.2.3/../x", "", "1", "must be one like v1.2.3"},
		{"v1.2.3-dirty", "", "1", "uncommitted changes"},
		{"v1.2.3", "plan9/amd64", "1", "plan9/amd64"},
		{"v1.2.3", "", "", "SOURCE_DATE_EPOCH"},
		{"v1.2.3", "", "yesterday", "SOURCE_DATE_EPOCH"},
	} {
		if _, err := newRelease(no.version, no.platforms, no.epoch); err == nil || !strings.Contains(err.Error(), no.why) {
			t.Errorf("%+v: %v", no, err)
		}
	}
	r, err := newRelease("v1.2.3", "linux/arm64, darwin/arm64", "1")
	if err != nil || len(r.platforms) != 2 {
		t.Errorf("two platforms: %v, %v", r, err)
	}
}
