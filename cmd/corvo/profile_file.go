package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"

	"go.yaml.in/yaml/v3"

	files "github.com/corvo/corvo/durable"
)

// profiles is the file in which a person keeps endpoints and credentials.
type profiles struct {
	// Current is the profile to use if none is named.
	Current string             `yaml:"profile,omitempty"`
	All     map[string]profile `yaml:"profiles"`
}

// profile is a server with the credentials for it.
type profile struct {
	Endpoint       string `yaml:"endpoint,omitempty"`
	APIKey         string `yaml:"api-key,omitempty"`
	APIKeyFile     string `yaml:"api-key-file,omitempty"`
	CloudToken     string `yaml:"cloud-token,omitempty"`
	CloudTokenFile string `yaml:"cloud-token-file,omitempty"`
	Namespace      string `yaml:"namespace,omitempty"`
}

// hasSecrets reports whether a profile has a credential.
func (p *profile) hasSecrets() bool {
	return p.APIKey != "" || p.APIKeyFile != "" || p.CloudToken != "" || p.CloudTokenFile != ""
}

// profileName matches the allowed names: a person types and a shell completes them without quotes, and none
// looks like a flag.
var profileName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// othersMay are the permissions of everybody but the owner of a file.
const othersMay fs.FileMode = 0o077

// profilesPath returns the path of the file.
func profilesPath() (string, error) {
	dir := os.Getenv("XDG_CONFIG_HOME")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("the profiles belong in ~/.config/corvo/config.yaml or below XDG_CONFIG_HOME: %w", err)
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "corvo", "config.yaml"), nil
}

// readProfiles reads the file, if it exists.
func readProfiles() (p profiles, err error) {
	path, err := profilesPath()
	if err != nil {
		return p, nil // without a home directory there are no profiles
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return p, err
	}
	defer f.Close()
	// Stat the open file, because another file may have taken its name since.
	info, err := f.Stat()
	if err != nil {
		return p, err
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&othersMay != 0 {
		return p, misusef("other users may read or write %s, which holds secrets: run chmod 600 %s", path, path)
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return p, err
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&p); err != nil && err != io.EOF {
		return p, misusef("%s: %v", path, err)
	}
	return p, nil
}

// write replaces the file.
func (p profiles) write() error {
	path, err := profilesPath()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	text, err := yaml.Marshal(p)
	if err != nil {
		return err
	}
	return files.WriteFile(path, text, 0o600)
}

// names returns the names of the profiles in order.
func (p profiles) names() []string { return slices.Sorted(maps.Keys(p.All)) }

// named returns the profile of a name, or the current one, or an empty one if neither is set.
func (p profiles) named(name string) (profile, error) {
	if name == "" {
		name = p.Current
	}
	if name == "" {
		return profile{}, nil
	}
	found, ok := p.All[name]
	if !ok {
		return profile{}, misusef("profile %q does not exist: corvo profiles lists all, corvo profiles set creates one", name)
	}
	return found, nil
}

// toChange returns the profile of a name, or a new one. It refuses an unsuitable new name and accepts any
// existing one.
func (p profiles) toChange(name string) (profile, error) {
	found, ok := p.All[name]
	if !ok && !profileName.MatchString(name) {
		return found, misusef("the profile's name is %q; it must have 1 to 64 letters, digits, dots, dashes and underscores, and start with a letter or digit", name)
	}
	return found, nil
}
