package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
)

// logFile is the name of the full log below the data directory of a development
// cloud; oldLogFile is the part of it before that.
const (
	logFile    = "cloud.log"
	oldLogFile = "cloud.log.1"
)

// maxLogBytes bounds each of the two files.
const maxLogBytes = 16 << 20

// rotating is a log file of bounded size. When it is full it replaces the old one
// and a new one begins, so that at most twice the bound lies on disk.
type rotating struct {
	path, old string
	most      int64

	mu      sync.Mutex // owns what follows
	file    *os.File
	written int64
}

// openLog appends to the log file of a start before.
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

// Write appends a line. A line never lies in two files.
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

// rotate begins a new file. When it cannot rename the full one, lines go on into it
// and the next one tries again.
func (r *rotating) rotate() error {
	if err := os.Rename(r.path, r.old); err != nil {
		return err
	}
	full := r.file
	return errors.Join(r.open(), full.Close())
}

// Close closes the file. What is written later is refused.
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
