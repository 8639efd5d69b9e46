// Command release builds the files of a version: archives of every binary for every
// platform, the provider's zips in the form of Terraform's registries, their
// checksums, and the folder that the install script downloads from. One commit and
// one version of Go give the same bytes on every machine, so that anybody can check
// that a published file was built from the tree.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// provider is the product with files for Terraform's registries.
const provider = "terraform-provider-corvo"

var (
	products  = []string{"corvo", "corvo-cloud", provider}
	platforms = []platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}
)

type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "/" + p.arch }

// release is one run.
type release struct {
	number    string // of the version, without a v: 1.2.3
	made      time.Time
	platforms []platform
	root      string // of the tree
	out       string
	// build builds a binary. Tests replace it by a function that writes a small file.
	build func(ctx context.Context, r *release, product string, p platform, path string) error
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	version := flag.String("version", "", "version to release, such as v1.2.3")
	only := flag.String("platforms", "", "platforms to build, linux/amd64,... (default: all)")
	out := flag.String("out", "dist", "folder to write to")
	flag.Parse()
	r, err := newRelease(*version, *only, os.Getenv("SOURCE_DATE_EPOCH"))
	if err == nil {
		r.out = *out
		err = r.run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// versionPattern matches semantic versions, because Terraform accepts no others.
var versionPattern = regexp.MustCompile(`^v?([0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?)$`)

// newRelease parses the flags and the time of the commit.
func newRelease(version, only, epoch string) (*release, error) {
	found := versionPattern.FindStringSubmatch(version)
	if found == nil {
		return nil, fmt.Errorf("the version is %q; it must be one like v1.2.3: tag the commit, or make release VERSION=v1.2.3", version)
	}
	if strings.HasSuffix(version, "-dirty") {
		return nil, fmt.Errorf("the version %s has uncommitted changes: commit them first", version)
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil || seconds <= 0 {
		return nil, fmt.Errorf("SOURCE_DATE_EPOCH is %q; it must be the time of the commit in seconds (git log -1 --format=%%ct)", epoch)
	}
	r := &release{number: found[1], made: time.Unix(seconds, 0).UTC(), platforms: platforms, root: ".", build: goBuild}
	if only == "" {
		return r, nil
	}
	r.platforms = nil
	for word := range strings.SplitSeq(only, ",") {
		p, err := parsePlatform(word)
		if err != nil {
			return nil, err
		}
		r.platforms = append(r.platforms, p)
	}
	return r, nil
}

func parsePlatform(word string) (platform, error) {
	for _, p := range platforms {
		if p.String() == strings.TrimSpace(word) {
			return p, nil
		}
	}
	return platform{}, fmt.Errorf("unknown platform %q; releases are for %v", word, platforms)
}

// run writes the release to <out>/<version>, and the files of the install script
// beside it. It renames the complete folder into place, so that no part of a release
// is ever visible.
func (r *release) run(ctx context.Context) (err error) {
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(r.out, ".release-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	into := filepath.Join(work, "files")
	if err := os.Mkdir(into, 0o755); err != nil {
		return err
	}
	for _, p := range r.platforms {
		for _, product := range products {
			if err := r.product(ctx, into, work, product, p); err != nil {
				return fmt.Errorf("%s for %s: %w", product, p, err)
			}
		}
	}
	if err := r.manifest(into); err != nil {
		return err
	}
	final := filepath.Join(r.out, r.number)
	if err := os.RemoveAll(final); err != nil {
		return err
	}
	if err := os.Rename(into, final); err != nil {
		return err
	}
	return r.front()
}

// product builds a binary and packs it with the files that belong to it.
func (r *release) product(ctx context.Context, into, work, product string, p platform) error {
	path := filepath.Join(work, "binary")
	if err := r.build(ctx, r, product, p, path); err != nil {
		return err
	}
	binary, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("%s_%s_%s_%s", product, r.number, p.os, p.arch)
	files := []file{{product, 0o755, binary}}
	for _, path := range besides(product, p) {
		text, err := os.ReadFile(filepath.Join(r.root, path))
		if err != nil {
			return err
		}
		files = append(files, file{filepath.Base(path), 0o644, text})
	}
	if err := writeTarball(filepath.Join(into, name+".tar.gz"), name, r.made, files); err != nil {
		return err
	}
	if product != provider {
		return nil
	}
	files[0].name = provider + "_v" + r.number // Terraform finds the binary by this name
	return writeZip(filepath.Join(into, name+".zip"), r.made, files)
}

// besides returns the paths of the files that are packed with a binary.
func besides(product string, p platform) []string {
	files := []string{"LICENSE"}
	if product == "corvo" {
		files = append(files, "README.md")
		if p.os == "linux" {
			files = append(files, "deploy/corvo.service", "deploy/corvo.yaml")
		}
	}
	return files
}

// goBuild builds a binary that depends only on the tree and the version of Go. The
// path of the tree, its state in git and the environment have no effect.
func goBuild(ctx context.Context, r *release, product string, p platform, path string) error {
	path, err := filepath.Abs(path) // because the command runs in r.root
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -X main.version=v"+r.number, "-o", path, "./cmd/"+product)
	cmd.Dir = r.root
	cmd.Env = append(os.Environ(), "GOOS="+p.os, "GOARCH="+p.arch, "CGO_ENABLED=0",
		"GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOFIPS140=off", "GOFLAGS=-mod=readonly", "GOWORK=off")
	cmd.Stderr = os.Stderr
	return cmd.Run()
}

// providerManifest declares the provider's protocol to Terraform's registry.
const providerManifest = `{"version":1,"metadata":{"protocol_versions":["6.0"]}}` + "\n"

// manifest writes the provider's manifest and both lists of checksums. The
// registry's list has only the provider's files, because it serves no others.
func (r *release) manifest(into string) error {
	base := filepath.Join(into, provider+"_"+r.number+"_")
	if err := os.WriteFile(base+"manifest.json", []byte(providerManifest), 0o644); err != nil {
		return err
	}
	if err := writeSums(filepath.Join(into, "SHA256SUMS"), filepath.Join(into, "*")); err != nil {
		return err
	}
	return writeSums(base+"SHA256SUMS", base+"*.zip", base+"manifest.json")
}

// front writes the files above all versions: the install script and, unless this is
// a preview, the number of the version that the script installs by default.
func (r *release) front() error {
	script, err := os.ReadFile(filepath.Join(r.root, "deploy", "install.sh"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(r.out, "install.sh"), script, 0o755); err != nil {
		return err
	}
	if strings.Contains(r.number, "-") {
		return nil
	}
	return os.WriteFile(filepath.Join(r.out, "latest"), []byte(r.number+"\n"), 0o644)
}
