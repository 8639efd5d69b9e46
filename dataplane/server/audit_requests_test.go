package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/tenancy"
)

// recorder replaces the log.
type recorder struct {
	mu      sync.Mutex
	ops     []*op.RecordRequests
	failing error
	tried   []*op.RecordRequests
}

func (r *recorder) record(_ context.Context, _ tenancy.NamespaceID, o *op.RecordRequests) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tried = append(r.tried, o)
	if err := o.Validate(); err != nil {
		return err
	}
	if r.failing != nil {
		return r.failing
	}
	r.ops = append(r.ops, o)
	return nil
}

// recorded returns the number of records and of the requests that they count.
func (r *recorder) recorded() (records int, requests uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range r.ops {
		records += len(o.Requests)
		for _, one := range o.Requests {
			requests += one.Count
		}
	}
	return records, requests
}

func newCollector(r *recorder) *requests {
	return &requests{
		record: r.record, remote: func(r *http.Request) string { return r.RemoteAddr },
		log: slog.New(slog.NewTextHandler(io.Discard, nil)), of: map[tenancy.NamespaceID]*pendingRequests{},
	}
}

var stranger = tenancy.Principal{}

// knock adds a refused request.
func (q *requests) knock(who tenancy.Principal, path string) {
	q.add("default", who, requestKind{"GET", path, 401}, httptest.NewRequest("GET", "/", nil))
}

func TestRequestsThatAreAlikeAreOneRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		q := newCollector(&r)
		for range 1000 {
			q.knock(stranger, "/a")
			q.knock(tenancy.Principal{Namespace: "default", KeyID: "k"}, "/a")
		}
		time.Sleep(requestWindow - 1)
		synctest.Wait()
		if n, _ := r.recorded(); n != 0 {
			t.Errorf("%d records before the window is over", n)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if n, all := r.recorded(); n != 2 || all != 2000 || len(r.ops) != 1 {
			t.Errorf("%d records of %d requests in %d ops", n, all, len(r.ops))
		}
		if first := r.ops[0].Requests[0]; first.Principal != "k" {
			t.Errorf("the first is of %q", first.Principal)
		}
		// Without requests nothing runs.
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(r.tried) != 1 || q.timer != nil {
			t.Errorf("%d ops were proposed", len(r.tried))
		}
	})
}

// A flood of different requests makes a bounded number of records, and the count includes all of them.
func TestAFloodIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		q := newCollector(&r)
		sent := uint64(0)
		const seconds = 600
		for s := range seconds {
			for i := range 2 * maxRequestKinds {
				q.knock(stranger, fmt.Sprint("/", s, "/", i))
				sent++
			}
			time.Sleep(time.Second)
		}
		synctest.Wait()
		n, _ := r.recorded()
		if most := recordBurst + int(seconds*time.Second/recordEvery) + 1; n > most || n < most-3 {
			t.Errorf("%d records in %d seconds, want at most %d", n, seconds, most)
		}
		time.Sleep(time.Duration(maxRequestKinds+1) * recordEvery)
		synctest.Wait()
		if _, all := r.recorded(); all != sent {
			t.Errorf("%d of %d requests are counted", all, sent)
		}
		if q.timer != nil {
			t.Error("there is more to do")
		}
	})
}

// Without a leader the requests are kept and proposed again unchanged.
func TestRequestsWaitForALeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := recorder{failing: api.Errorf(api.LeaderUnavailable, "no leader")}
		q := newCollector(&r)
		q.knock(stranger, "/a")
		time.Sleep(time.Minute)
		for range 3 * maxRequestKinds {
			q.knock(stranger, "/a")
		}
		r.mu.Lock()
		r.failing = nil
		r.mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		if n, all := r.recorded(); n != 2 || all != 1+3*maxRequestKinds {
			t.Errorf("%d records of %d requests", n, all)
		}
		for _, o := range r.tried[:len(r.tried)-1] {
			if o != r.tried[0] {
				t.Error("another op was proposed where the first may be in the log")
			}
		}
	})
}

func TestCloseEmptiesTheBuffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		q := newCollector(&r)
		for i := range maxRequestKinds + 7 {
			q.knock(stranger, fmt.Sprint("/", i))
		}
		q.close(t.Context())
		if n, all := r.recorded(); n != maxRequestKinds+1 || all != maxRequestKinds+7 {
			t.Errorf("%d records of %d requests", n, all)
		}
		q.knock(stranger, "/late")
		time.Sleep(time.Hour)
		synctest.Wait()
		if n, _ := r.recorded(); n != maxRequestKinds+1 {
			t.Errorf("%d records", n)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		r := recorder{failing: errors.New("closed")}
		q := newCollector(&r)
		q.knock(stranger, "/a")
		q.close(t.Context()) // must not hang
	})
}

func BenchmarkRefusedRequest(b *testing.B) {
	q := newCollector(&recorder{})
	r := httptest.NewRequest("GET", "/", nil)
	b.ReportAllocs()
	for b.Loop() {
		q.add("default", stranger, requestKind{"GET", "/api/v1/jobs/{id}", 401}, r)
	}
}
