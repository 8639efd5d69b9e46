package raftlog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/durable"
)

// logDir is an open log directory: locked, of a known kind, and with the mark of the acknowledged writes.
type logDir struct {
	dir  string
	kind Kind
	lock io.Closer
	mark *mark
}

// kindFile records the kind with which a directory was first opened.
const kindFile = "KIND"

func openLogDir(dir string, kind Kind, noSync bool) (_ *logDir, err error) {
	if err := durable.MakeDir(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the log directory: %w", err)
	}
	h := &logDir{dir: dir, kind: kind}
	if h.lock, err = durable.Lock(dir); err != nil {
		if errors.Is(err, durable.ErrInUse) {
			return nil, api.Errorf(api.Conflict, "the log in %s is %w", dir, durable.ErrInUse)
		}
		return nil, fmt.Errorf("the log in %s: %w", dir, err)
	}
	if err = h.recordKind(); err == nil {
		h.mark, err = openMark(dir, markFile, noSync)
	}
	if err != nil {
		return nil, errors.Join(err, h.lock.Close())
	}
	return h, nil
}

// recordKind records h's kind in a new directory. It refuses a directory of another kind.
func (h *logDir) recordKind() error {
	path := filepath.Join(h.dir, kindFile)
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := h.checkEmpty(); err != nil {
			return err
		}
		return durable.WriteFile(path, []byte(h.kind+"\n"), 0o644)
	case err != nil:
		return err
	}
	if is := strings.TrimSpace(string(data)); is != string(h.kind) {
		return api.Errorf(api.Conflict, "%s holds a log of kind %q, not %q: the kind of a log cannot be changed; open it as %q, or let the node join again with an empty directory", h.dir, is, h.kind, is)
	}
	return nil
}

// checkEmpty refuses a directory with foreign files. Files that a crash in recordKind leaves are allowed.
func (h *logDir) checkEmpty() error {
	files, err := os.ReadDir(h.dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		if name := f.Name(); name != "LOCK" && name != kindFile+".tmp" {
			return api.Errorf(api.Conflict, "%s has no log in it but %s: choose an empty directory", h.dir, name)
		}
	}
	return nil
}

// size returns the bytes that the files of the directory and its subdirectories take on disk. Files may come
// and go at the same time.
func (h *logDir) size() (int64, error) {
	var total int64
	err := filepath.WalkDir(h.dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			var info fs.FileInfo
			if info, err = d.Info(); err == nil {
				total += onDisk(info)
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	return total, err
}

func (h *logDir) close() error { return errors.Join(h.mark.Close(), h.lock.Close()) }

// errDiskFull is wrapped by the errors of checkSpace.
var errDiskFull = errors.New("the disk is full: make room")

// checkSpace refuses a write if the disk has less than reserve bytes left.
func checkSpace(dir string, reserve int64) error {
	free, err := freeBytes(dir)
	if err == nil && free < reserve {
		err = fmt.Errorf("%w: %s has %d bytes left, %d are kept free", errDiskFull, dir, free, reserve)
	}
	return err
}
