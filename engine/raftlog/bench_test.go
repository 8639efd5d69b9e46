package raftlog

import (
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

const benchEntry = 300

// BenchmarkAppend appends n entries of 300 B in each call. It deletes a prefix every 64 MiB, as raft does
// after a snapshot.
func BenchmarkAppend(b *testing.B) {
	each(b, func(b *testing.B, s Store) {
		for _, n := range []int{1, 32} {
			b.Run(fmt.Sprintf("entries=%d", n), func(b *testing.B) { benchAppend(b, s, n) })
		}
	})
}

func benchAppend(b *testing.B, s Store, n int) {
	next := lastOfBench(b, s) + 1
	batch := make([]*raft.Log, n)
	for i := range batch {
		batch[i] = &raft.Log{Term: 1, Data: make([]byte, benchEntry)}
	}
	b.SetBytes(int64(n * benchEntry))
	for held := 0; b.Loop(); held += n * benchEntry {
		for _, l := range batch {
			l.Index = next
			next++
		}
		if err := s.StoreLogs(batch); err != nil {
			b.Fatal(err)
		}
		if held >= 64<<20 {
			held = 0
			if err := s.DeleteRange(0, next-10_000); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "entries/s")
}

// BenchmarkRead reads a log from front to back, repeatedly.
func BenchmarkRead(b *testing.B) {
	each(b, func(b *testing.B, s Store) {
		const held = 20_000
		batch := make([]*raft.Log, 100)
		for at := uint64(1); at < held; at += uint64(len(batch)) {
			for i := range batch {
				batch[i] = &raft.Log{Index: at + uint64(i), Term: 1, Data: make([]byte, benchEntry)}
			}
			if err := s.StoreLogs(batch); err != nil {
				b.Fatal(err)
			}
		}
		var l raft.Log
		index := uint64(0)
		for b.Loop() {
			if err := s.GetLog(index%held+1, &l); err != nil {
				b.Fatal(err)
			}
			index++
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "entries/s")
	})
}

// BenchmarkOpenLogs measures the cost of an open log with a few entries: memory of the process, goroutines,
// files and disk.
func BenchmarkOpenLogs(b *testing.B) {
	const many = 20
	for _, kind := range Kinds() {
		b.Run(kind, func(b *testing.B) {
			f := Factory{SegmentBytes: 1 << 20, Logger: hclog.NewNullLogger()}
			for b.Loop() {
				var open []Store
				resident, routines, files := residentBytes(b), runtime.NumGoroutine(), openFiles(b)
				var disk int64
				for range many {
					s, err := f.Open(b.TempDir(), Kind(kind))
					if err != nil {
						b.Fatal(err)
					}
					open = append(open, s)
					if err := s.StoreLogs(logs(1, 10, 1)); err != nil {
						b.Fatal(err)
					}
					size, err := s.Size()
					if err != nil {
						b.Fatal(err)
					}
					disk += size
				}
				b.ReportMetric(float64(residentBytes(b)-resident)/many/1024, "KiB-rss/log")
				b.ReportMetric(float64(runtime.NumGoroutine()-routines)/many, "goroutines/log")
				b.ReportMetric(float64(openFiles(b)-files)/many, "files/log")
				b.ReportMetric(float64(disk)/many/1024, "KiB-disk/log")
				for _, s := range open {
					if err := s.Close(); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

func residentBytes(b *testing.B) int64 {
	b.Helper()
	runtime.GC()
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Skip(err)
	}
	var total, resident int64
	if _, err := fmt.Sscan(string(data), &total, &resident); err != nil {
		b.Fatal(err)
	}
	return resident * int64(os.Getpagesize())
}

func openFiles(b *testing.B) int {
	b.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		b.Skip(err)
	}
	return len(files)
}

// BenchmarkSize measures Size on a log with some entries.
func BenchmarkSize(b *testing.B) {
	each(b, func(b *testing.B, s Store) {
		if err := s.StoreLogs(logs(1, 100, 1)); err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if _, err := s.Size(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func each(b *testing.B, bench func(b *testing.B, s Store)) {
	for _, kind := range Kinds() {
		for _, noSync := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/nosync=%v", kind, noSync), func(b *testing.B) {
				f := Factory{NoSync: noSync, Logger: hclog.NewNullLogger()}
				s, err := f.Open(b.TempDir(), Kind(kind))
				if err != nil {
					b.Fatal(err)
				}
				defer s.Close()
				bench(b, s)
			})
		}
	}
}

func lastOfBench(b *testing.B, s Store) uint64 {
	b.Helper()
	last, err := s.LastIndex()
	if err != nil {
		b.Fatal(err)
	}
	return last
}
