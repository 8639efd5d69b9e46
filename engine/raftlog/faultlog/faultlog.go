// Package faultlog makes a log store slow, full or faulty, for tests. It wraps the real store through
// raftlog.Factory.Wrap. It owns no files. It may import raftlog and hashicorp/raft.
package faultlog

import (
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/corvo/corvo/engine/raftlog"
)

// These are the errors of injected faults.
var (
	ErrInjected = errors.New("injected fault of the log")
	ErrDiskFull = errors.New("injected fault of the log: no space left on device")
)

// Faults injects faults into the stores that it wraps. The zero value injects none. Its methods may be called
// at any time and from any goroutine. It waits with time.Sleep, so that a slow disk costs nothing in a
// synctest bubble.
//
// Like every Store, a wrapped one refuses all writes after a failed one. Opening the log again gives a store
// without that failure.
type Faults struct {
	mu      sync.Mutex
	delay   time.Duration
	full    bool
	appends int // appends until the one that fails; 0 = none fails
	syncs   int
	reads   int
}

// Wrap wraps a store; use it as raftlog.Factory.Wrap.
func (f *Faults) Wrap(s raftlog.Store) raftlog.Store { return &store{Store: s, faults: f} }

// Delay makes each StoreLogs take d longer.
func (f *Faults) Delay(d time.Duration) { f.set(func() { f.delay = d }) }

// FillDisk makes all writes fail with ErrDiskFull, with nothing written; false ends the fault.
func (f *Faults) FillDisk(full bool) { f.set(func() { f.full = full }) }

// FailAppend makes the n-th StoreLogs from now (1 = the next) fail with ErrInjected, with nothing written. 0
// = none.
func (f *Faults) FailAppend(n int) { f.set(func() { f.appends = n }) }

// FailSync makes the n-th StoreLogs from now (1 = the next) fail with ErrInjected although everything is
// written, because a failed fsync says nothing about the content of the disk. 0 = none.
func (f *Faults) FailSync(n int) { f.set(func() { f.syncs = n }) }

// FailRead makes the n-th GetLog from now (1 = the next) fail with ErrInjected. 0 = none.
func (f *Faults) FailRead(n int) { f.set(func() { f.reads = n }) }

func (f *Faults) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// due counts n down and reports whether it has reached zero.
func due(n *int) bool {
	if *n == 0 {
		return false
	}
	*n--
	return *n == 0
}

func (f *Faults) onAppend() (wait time.Duration, before, after error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	failed, unsynced := due(&f.appends), due(&f.syncs)
	switch {
	case f.full:
		before = ErrDiskFull
	case failed:
		before = ErrInjected
	case unsynced:
		after = ErrInjected
	}
	return f.delay, before, after
}

func (f *Faults) onWrite() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.full {
		return ErrDiskFull
	}
	return nil
}

func (f *Faults) onRead() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if due(&f.reads) {
		return ErrInjected
	}
	return nil
}

// store wraps a Store and injects the faults.
type store struct {
	raftlog.Store
	faults *Faults

	mu     sync.Mutex
	failed error
}

// write runs f unless an earlier write has failed.
func (s *store) write(f func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == nil {
		s.failed = f()
	}
	return s.failed
}

func (s *store) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

func (s *store) StoreLogs(logs []*raft.Log) error {
	wait, before, after := s.faults.onAppend()
	time.Sleep(wait)
	if before != nil {
		return s.write(func() error { return before })
	}
	return s.write(func() error { return errors.Join(s.Store.StoreLogs(logs), after) })
}

func (s *store) DeleteRange(from, to uint64) error {
	return s.write(func() error {
		if err := s.faults.onWrite(); err != nil {
			return err
		}
		return s.Store.DeleteRange(from, to)
	})
}

func (s *store) Set(key, value []byte) error {
	return s.write(func() error {
		if err := s.faults.onWrite(); err != nil {
			return err
		}
		return s.Store.Set(key, value)
	})
}

func (s *store) SetUint64(key []byte, value uint64) error {
	return s.write(func() error {
		if err := s.faults.onWrite(); err != nil {
			return err
		}
		return s.Store.SetUint64(key, value)
	})
}

func (s *store) GetLog(index uint64, l *raft.Log) error {
	if err := s.faults.onRead(); err != nil {
		return err
	}
	return s.Store.GetLog(index, l)
}
