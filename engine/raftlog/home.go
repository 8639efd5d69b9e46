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

// home is a log's directory, while it is ours: locked, known to be of one kind,
// and with the mark of what was acknowledged in it.
type home struct {
	dir  string
	kind Kind
	lock io.Closer
	mark *mark
}

// kindFile holds the kind a directory was first opened with.
const kindFile = "KIND"

func openHome(dir string, kind Kind, noSync bool) (_ *home, err error) {
	if err := durable.MakeDir(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the log directory: %w", err)
	}
	h := &home{dir: dir, kind: kind}
	if h.lock, err = durable.Lock(dir); err != nil {
		if errors.Is(err, durable.ErrInUse) {
			return nil, api.Errorf(api.Conflict, "the log in %s is %w", dir, durable.ErrInUse)
		}
		return nil, fmt.Errorf("the log in %s: %w", dir, err)
	}
	if err = h.claim(); err == nil {
		h.mark, err = openMark(dir, markFile, noSync)
	}
	if err != nil {
		return nil, errors.Join(err, h.lock.Close())
	}
	return h, nil
}

// claim makes the directory one of h's kind for ever, or refuses if it is one of
// another kind already.
func (h *home) claim() error {
	path := filepath.Join(h.dir, kindFile)
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := h.empty(); err != nil {
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

// empty refuses a directory with files of somebody else in it. What a crash in
// claim leaves is ours.
func (h *home) empty() error {
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

// size is the bytes that the files of the directory and those below it take on
// disk. Files come and go meanwhile.
func (h *home) size() (int64, error) {
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

func (h *home) close() error { return errors.Join(h.mark.Close(), h.lock.Close()) }

// errDiskFull is a write refused by room.
var errDiskFull = errors.New("the disk is full: make room")

// room refuses what is written on a disk that has less than reserve left.
func room(dir string, reserve int64) error {
	free, err := freeBytes(dir)
	if err == nil && free < reserve {
		err = fmt.Errorf("%w: %s has %d bytes left, %d are kept free", errDiskFull, dir, free, reserve)
	}
	return err
}
