package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/corvo/corvo/api"
)

const (
	// eventSilence is how long a stream may be silent: a server says something every 15
	// seconds, so that one that does not is gone.
	eventSilence = 45 * time.Second
	// eventLine bounds a line of a stream, in bytes; events are below 60 KiB.
	eventLine = 1 << 20
)

// EventQuery chooses events; what is empty chooses all.
type EventQuery struct {
	Queues []string
	JobIDs []string
	Types  []string
	// After is the id of an event to begin behind, "0" to begin with the oldest there
	// is; "" begins with what comes next.
	After string
}

func (q EventQuery) values(place string) url.Values {
	v := url.Values{}
	for name, list := range map[string][]string{"queues": q.Queues, "job_ids": q.JobIDs, "types": q.Types} {
		if len(list) > 0 {
			v.Set(name, strings.Join(list, ","))
		}
	}
	if q.After != "" {
		v.Set(place, q.After)
	}
	return v
}

// Events yields events as they come, until ctx ends or the caller has enough. Where the
// stream breaks off, because a node went, it is taken up behind the last event that came:
// none is left out, and none comes twice. An event of type api.EventReset says that there
// is a gap all the same. The error of a request that the server refuses ends it.
func (c *Client) Events(ctx context.Context, q EventQuery) iter.Seq2[api.Event, error] {
	return func(yield func(api.Event, error) bool) {
		s := eventStream{client: c, query: q, yield: yield}
		for try := 0; ; try++ {
			err := s.follow(ctx)
			if s.came {
				s.came, try = false, 0
			}
			var refused *api.Error
			switch {
			case s.left:
				return
			case ctx.Err() != nil:
				yield(api.Event{}, ctx.Err())
				return
			case errors.As(err, &refused) && !refused.Code.Retryable(), !s.begun && try >= c.retries:
				yield(api.Event{}, err)
				return
			}
			if err := c.sleep(ctx, backoff(try, err)); err != nil {
				yield(api.Event{}, err)
				return
			}
		}
	}
}

// eventStream is a stream of events over as many connections as it takes.
type eventStream struct {
	client *Client
	query  EventQuery // After is the id of what came last
	yield  func(api.Event, error) bool

	begun bool // a server has answered
	came  bool // something has come since the last connection
	left  bool // the caller has enough
}

// follow is one connection; it returns why it ended.
func (s *eventStream) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silence := time.AfterFunc(eventSilence, cancel)
	defer silence.Stop()
	path := "/api/v1/events"
	if v := s.query.values("last_event_id"); len(v) > 0 {
		path += "?" + v.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.client.base+path, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "text/event-stream")
	if s.client.key != "" {
		req.Header.Set("Authorization", s.client.bearer)
	}
	if s.client.namespace != "" {
		req.Header.Set(api.NamespaceHeader, s.client.namespace)
	}
	resp, err := s.client.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return readError(resp)
	}
	s.begun = true
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, eventLine)
	var data, id string
	for lines.Scan() {
		silence.Reset(eventSilence)
		s.came = true
		name, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case name == "data":
			data = value
		case name == "id":
			id = value
		case lines.Text() == "":
			if err := s.dispatch(id, data); err != nil || s.left {
				return err
			}
			data, id = "", ""
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return io.ErrUnexpectedEOF // a stream has no end of its own
}

// dispatch hands an event on that has come whole. One without data only says how far the
// stream is.
func (s *eventStream) dispatch(id, data string) error {
	if data != "" {
		var e api.Event
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return fmt.Errorf("GET /api/v1/events: read an event: %w", err)
		}
		s.left = !s.yield(e, nil)
	}
	if id != "" {
		s.query.After = id
	}
	return nil
}

// EventPage is the first events behind q.After, limit at most; 0 is the server's choice.
func (c *Client) EventPage(ctx context.Context, q EventQuery, limit int) (api.EventPage, error) {
	var out api.EventPage
	v := q.values("after_seq")
	if limit > 0 {
		v.Set("limit", fmt.Sprint(limit))
	}
	_, err := c.do(ctx, call{method: http.MethodGet, path: "/api/v1/cluster/events?" + v.Encode(), out: &out, repeat: repeatAlways})
	return out, err
}

// JobEvents is what happened to a job, oldest first.
func (c *Client) JobEvents(ctx context.Context, jobID string, r Read) (api.JobEvents, error) {
	var out api.JobEvents
	_, err := c.do(ctx, call{method: http.MethodGet, path: "/api/v1/jobs/" + url.PathEscape(jobID) + "/events" + r.query(), out: &out, repeat: repeatAlways})
	return out, err
}
