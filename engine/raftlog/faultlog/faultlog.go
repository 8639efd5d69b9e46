// Package faultlog makes a log store slow, full or faulty, on purpose and for
// tests: it goes around the real one by raftlog.Factory.Wrap. It owns no files. It
// may import raftlog and hashicorp/raft.
package faultlog

import (
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/corvo/corvo/engine/raftlog"
)

// What a fault looks like to the caller.
var (
	ErrInjected = errors.New("injected fault of the log")
	ErrDiskFull = errors.New("injected fault of the log: no space left on device")
)

// Faults is what goes wrong with the stores it is wrapped around, from now on. The
// zero value lets everything through. It may be changed at any time by anybody,
// and waits with time.Sleep, so that in a synctest bubble a slow disk costs
// nothing.
//
// As every Store does, one that has failed a write fails all those that follow;
// opening the log again makes a new one that starts well.
type Faults struct {
	mu      sync.Mutex
	delay   time.Duration
	full    bool
	appends int // how many more pass before one fails; 0 = none fails
	syncs   int
	reads   int
}

// Wrap is for raftlog.Factory.Wrap.
func (f *Faults) Wrap(s raftlog.Store) raftlog.Store { return &store{Store: s, faults: f} }

// Delay makes each StoreLogs take that much longer.
func (f *Faults) Delay(d time.Duration) { f.set(func() { f.delay = d }) }

// FillDisk makes all writes fail with ErrDiskFull, and nothing of them is written;
// false makes room again.
func (f *Faults) FillDisk(full bool) { f.set(func() { f.full = full }) }

// FailAppend makes the n-th StoreLogs from now (1 = the next) fail with
// ErrInjected. Nothing of it is written. 0 = none.
func (f *Faults) FailAppend(n int) { f.set(func() { f.appends = n }) }

// FailSync makes the n-th StoreLogs from now (1 = the next) fail with ErrInjected
// although all of it is written: an fsync that fails says no more than that. 0 =
// none.
func (f *Faults) FailSync(n int) { f.set(func() { f.syncs = n }) }

// FailRead makes the n-th GetLog from now (1 = the next) fail with ErrInjected. 0 =
// none.
func (f *Faults) FailRead(n int) { f.set(func() { f.reads = n }) }

func (f *Faults) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// due counts n down and tells when it is at its end.
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

// store passes on what no fault is about.
type store struct {
	raftlog.Store
	faults *Faults

	mu     sync.Mutex
	failed error
}

// write runs one write unless another has failed.
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
