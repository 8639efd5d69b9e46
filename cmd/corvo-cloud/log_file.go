package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
)

// cloudLog is the name of the log of a development cloud, without that of its separate hosts.
const cloudLog = "cloud"

// maxLogBytes bounds the file of a log, and the one before it.
const maxLogBytes = 16 << 20

// rotating is a log file of bounded size. When it is full, it replaces the old file and a new one begins, so
// that the disk holds at most twice the bound.
type rotating struct {
	path, old string
	most      int64

	mu      sync.Mutex // guards the fields below
	file    *os.File
	written int64
}

// openLog opens the log file and appends to the log of earlier starts.
func openLog(path, old string, most int64) (*rotating, error) {
	r := &rotating{path: path, old: old, most: most}
	return r, r.open()
}

func (r *rotating) open() error {
	file, err := os.OpenFile(r.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("log: %w", err)
	}
	info, err := file.Stat()
	if err != nil {
		return errors.Join(fmt.Errorf("log: %w", err), file.Close())
	}
	r.file, r.written = file, info.Size()
	return nil
}

// Write appends a line. It never splits a line between two files.
func (r *rotating) Write(line []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return 0, fs.ErrClosed
	}
	if r.written > 0 && r.written+int64(len(line)) > r.most {
		if err := r.rotate(); err != nil {
			return 0, err
		}
	}
	n, err := r.file.Write(line)
	r.written += int64(n)
	return n, err
}

// rotate begins a new file. If it cannot rename the full file, that Write fails, and the next one tries again.
func (r *rotating) rotate() error {
	if err := os.Rename(r.path, r.old); err != nil {
		return err
	}
	full := r.file
	return errors.Join(r.open(), full.Close())
}

// Close closes the file. A later Write fails.
func (r *rotating) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return nil
	}
	err := r.file.Close()
	r.file = nil
	return err
}
