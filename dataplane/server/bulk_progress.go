package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/server/convert"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/tenancy"
)

// Times of the progress stream.
const (
	bulkEventEvery = 250 * time.Millisecond // shortest time between two events
	bulkEventLeast = 15 * time.Second       // longest time without an event; a comment then keeps the connection alive
	bulkEventWrite = 10 * time.Second       // a client that reads nothing for this long is disconnected
)

// followBulk streams the progress of an operation. The stream ends when the operation has ended or its record
// is removed, the client leaves or may no longer see the operation, or the node drains. Each event has the
// whole progress, so a client that reconnects to any node misses nothing. If the operation has ended, the
// name of the last event is the operation's final status.
func (s *Server) followBulk(w http.ResponseWriter, r *http.Request) error {
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	id, _, err := q.bulk(r)
	if err != nil {
		return err
	}
	if !s.bulkStreams.take(1) {
		refusal := api.Errorf(api.Overloaded, "%d progress streams are open on this node, the maximum: use GET /api/v1/bulk/%s instead", job.MaxBulkStreams, job.BulkIDText(id))
		refusal.RetryAfter = time.Second
		return refusal
	}
	defer s.bulkStreams.give(1)
	streamHeader(w)
	return s.streamBulk(w, r, &q, id)
}

func (s *Server) streamBulk(w http.ResponseWriter, r *http.Request, q *request, id job.ID) error {
	to, home := http.NewResponseController(w), q.shards.Home()
	for last := ""; ; {
		news := home.State().BulkChanged()
		b, err := home.State().Bulk(id)
		if err != nil {
			return err
		}
		if b == nil {
			return nil // the record was removed in the meantime
		}
		text, ended, err := progressEvent(convert.ToProgress(b, home.NowNs()))
		if err != nil {
			return err
		}
		if text == last {
			text = ": nothing new\n\n"
		} else {
			last = text
		}
		// A connection error means that the client is gone or reads nothing for bulkEventWrite.
		if err := to.SetWriteDeadline(time.Now().Add(bulkEventWrite)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return nil
		}
		if _, err := w.Write([]byte(text)); err != nil || to.Flush() != nil || ended {
			return nil
		}
		if !s.awaitNews(r, news) || !s.stillFollows(r, q, b) {
			return nil
		}
	}
}

// stillFollows reports whether the client may still see an operation, because its key may be revoked, expire
// or get another scope while the operation runs.
func (s *Server) stillFollows(r *http.Request, q *request, b *state.Bulk) bool {
	who, err := s.stays(r, q.who, tenancy.JobRead)
	return err == nil && mayFollow(who, b)
}

// progressEvent encodes the event of a progress and reports whether it is the last one.
func progressEvent(p api.BulkProgress) (text string, ended bool, err error) {
	name := "progress"
	if p.Status != api.BulkQueued && p.Status != api.BulkRunning {
		name, ended = p.Status, true
	}
	data, err := json.Marshal(p)
	return fmt.Sprintf("event: %s\ndata: %s\n\n", name, data), ended, err
}

// awaitNews waits for a change, at least bulkEventEvery and at most bulkEventLeast. It returns false if the
// client leaves or the node drains.
func (s *Server) awaitNews(r *http.Request, news <-chan struct{}) bool {
	pause, least := time.NewTimer(bulkEventEvery), time.NewTimer(bulkEventLeast)
	defer pause.Stop()
	defer least.Stop()
	for early := true; ; early = false {
		var woken <-chan struct{}
		if !early {
			woken = news
		}
		select {
		case <-pause.C:
			continue
		case <-woken:
			return true
		case <-least.C:
			return true
		case <-r.Context().Done():
			return false
		case <-s.draining.Done():
			return false
		}
	}
}
