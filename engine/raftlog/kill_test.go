package raftlog

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// These environment variables configure the process that appends until it is killed.
const (
	victimDir    = "RAFTLOG_VICTIM_DIR"
	victimKind   = "RAFTLOG_VICTIM_KIND"
	victimNoSync = "RAFTLOG_VICTIM_NOSYNC"
)

// die works on the log in dir until it is killed. It prints each acknowledged write, and each deletion before
// it starts.
func die(dir string) {
	f := Factory{SegmentBytes: MinSegmentBytes, NoSync: os.Getenv(victimNoSync) != "", Logger: hclog.NewNullLogger()}
	s, err := f.Open(dir, Kind(os.Getenv(victimKind)))
	if err != nil {
		log.Fatal(err)
	}
	last, err := s.LastIndex()
	if err != nil {
		log.Fatal(err)
	}
	must := func(err error) {
		if err != nil {
			log.Fatal(err)
		}
	}
	for term := last + 1; ; term++ {
		must(s.SetUint64([]byte("term"), term))
		fmt.Println("term", term, 0)
		for range 10 {
			batch := logs(last+1, last+1+rand.Uint64N(5), term)
			must(s.StoreLogs(batch))
			last = batch[len(batch)-1].Index
			fmt.Println("stored", last, term)
		}
		cut := max(last, 20) - 20
		fmt.Println("cutting", cut, 0)
		must(s.DeleteRange(0, cut))
		last -= 3
		fmt.Println("keeping", last, 0)
		must(s.DeleteRange(last+1, last+3))
	}
}

// promise records the victim's output.
type promise struct {
	cut, last uint64 // the log must hold the entries above cut, up to last
	terms     map[uint64]uint64
	term      uint64
}

func (p *promise) hear(line string) error {
	var what string
	var n, term uint64
	if _, err := fmt.Sscan(line, &what, &n, &term); err != nil {
		return err
	}
	switch what {
	case "term":
		p.term = n
	case "stored":
		for i := p.last + 1; i <= n; i++ {
			p.terms[i] = term
		}
		p.last = n
	case "cutting":
		p.cut = n
	case "keeping":
		p.last = n
	}
	return nil
}

func (p *promise) kept(t *testing.T, s Store) {
	t.Helper()
	last, err := s.LastIndex()
	if err != nil {
		t.Fatal(err)
	}
	if last < p.last {
		t.Fatalf("log ends at %d, %d was acknowledged", last, p.last)
	}
	for i := p.cut + 1; i <= p.last; i++ {
		var got raft.Log
		if err := s.GetLog(i, &got); err != nil || got.Term != p.terms[i] || !bytes.Equal(got.Data, logAt(i, p.terms[i]).Data) {
			t.Fatalf("entry %d of term %d: %v, term %d", i, p.terms[i], err, got.Term)
		}
	}
	if term, err := s.GetUint64([]byte("term")); err != nil || term < p.term {
		t.Fatalf("term %d, %v; %d was acknowledged", term, err, p.term)
	}
}

// TestKill checks that a process killed at any moment has kept every acknowledged write, synced or not.
func TestKill(t *testing.T) {
	t.Parallel()
	for _, kind := range Kinds() {
		for _, noSync := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, NoSync %v", kind, noSync), func(t *testing.T) {
				t.Parallel()
				dir, p := t.TempDir(), &promise{terms: map[uint64]uint64{}}
				for range 3 {
					kill(t, dir, Kind(kind), noSync, p)
					s := open(t, dir, Kind(kind))
					p.kept(t, s)
					p.last = lastOf(t, s) // more entries may have been in flight
					for i := p.cut + 1; i <= p.last; i++ {
						var got raft.Log
						if err := s.GetLog(i, &got); err != nil && !errors.Is(err, raft.ErrLogNotFound) {
							t.Fatal(err)
						}
						p.terms[i] = got.Term
					}
					if err := s.Close(); err != nil {
						t.Fatal(err)
					}
				}
			})
		}
	}
}

func lastOf(t *testing.T, s Store) uint64 {
	t.Helper()
	last, err := s.LastIndex()
	if err != nil {
		t.Fatal(err)
	}
	return last
}

// kill starts a process that works on the log, and kills it after a few hundred lines of output.
func kill(t *testing.T, dir string, kind Kind, noSync bool, p *promise) {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), victimDir+"="+dir, victimKind+"="+string(kind))
	if noSync {
		c.Env = append(c.Env, victimNoSync+"=yes")
	}
	var complaint bytes.Buffer
	c.Stderr = &complaint
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	forks.Lock()
	err = c.Start()
	forks.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	lines, left := bufio.NewScanner(out), 50+rand.IntN(300)
	for lines.Scan() {
		if err := p.hear(lines.Text()); err != nil {
			t.Errorf("%q: %v", lines.Text(), err)
		}
		if left--; left == 0 {
			if err := c.Process.Kill(); err != nil {
				t.Error(err)
			}
		}
	}
	if err := c.Wait(); left > 0 {
		t.Fatalf("it ended by itself: %v, %s", err, complaint.String())
	}
}
