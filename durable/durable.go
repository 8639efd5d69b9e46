// Package durable creates files and directories that survive a crash: it renames them into place and syncs
// them and the directory that holds their name. It also locks directories, with locks that end with the
// process, and measures free disk space. It does not know the content of the files, and imports no other
// package of this module.
package durable

import (
	"errors"
	"os"
	"path/filepath"
)

// ErrInUse reports that another process, or another part of this one, has locked the directory.
var ErrInUse = errors.New("in use: stop the other process first")

// WriteFile replaces the file at path by data. After a crash the file is either the old or the new one as a
// whole. WriteFile writes to path + ".tmp" first, so two calls for one path must not run at the same time.
func WriteFile(path string, data []byte, perm os.FileMode) error {
	tmp := path + ".tmp"
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, perm)
	if err != nil {
		return err
	}
	if _, err = f.Write(data); err != nil {
		return errors.Join(err, f.Close())
	}
	return Keep(f, path)
}

// Keep syncs and closes a written file, renames it to path and syncs the directory.
func Keep(f *os.File, path string) error {
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// MakeDir creates a directory and its missing parents, and syncs each into its parent, because a power cut
// could remove an unsynced directory together with everything that was synced inside it.
func MakeDir(path string, perm os.FileMode) error {
	var missing []string
	for dir := filepath.Clean(path); ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			break
		}
		missing = append(missing, dir)
	}
	if err := os.MkdirAll(path, perm); err != nil {
		return err
	}
	for _, dir := range missing {
		if err := SyncDir(filepath.Dir(dir)); err != nil {
			return err
		}
	}
	return nil
}

// SyncDir makes the names in a directory durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
