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
	// eventSilence is the silence after which a live stream counts as broken, because a server sends
	// something at least every 15 seconds.
	eventSilence = 45 * time.Second
	// eventLine is the largest line of a stream, in bytes; an event has less than 60 KiB.
	eventLine = 1 << 20
)

// EventQuery filters events. An empty field does not filter.
type EventQuery struct {
	Queues []string
	JobIDs []string
	Types  []string
	// After is the id of an event: only later events are returned. With "0" the oldest stored event is the
	// first. With "", Events begins with the next event to happen, and EventPage with the oldest stored one.
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

// Events yields events as they happen, until ctx ends or the caller's loop breaks. If the connection breaks,
// Events reconnects and continues after the last received event, so that no event is lost or repeated. An
// event of type api.EventReset reports that the server had to skip events nevertheless. Events yields an
// error and ends when ctx ends, when the server refuses the request with a code that is not retryable, when
// an event cannot be read, or when no server accepts the first connection within the Client's retries.
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
			case errors.As(err, &refused) && !refused.Code.Retryable(), errors.Is(err, errUnreadable), !s.begun && try >= c.retries:
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

// errUnreadable means that an event is not in the form that this version reads. The next connection would begin with
// the same event.
var errUnreadable = errors.New("GET /api/v1/events: an event cannot be read")

// eventStream is a stream of events over one connection after the other.
type eventStream struct {
	client *Client
	query  EventQuery // After is the id of the last received event
	yield  func(api.Event, error) bool

	begun bool // a server has accepted the stream once
	came  bool // the present connection has received something
	left  bool // the caller has stopped
}

// follow reads one connection until it ends and returns the reason.
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
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return fmt.Errorf("%w: %w", errUnreadable, err)
	} else if err != nil {
		return err
	}
	return io.ErrUnexpectedEOF // the server ended the stream, for example because it shuts down
}

// dispatch yields a complete event. An event without data only reports the position of the stream.
func (s *eventStream) dispatch(id, data string) error {
	if data != "" {
		var e api.Event
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return fmt.Errorf("%w: %w", errUnreadable, err)
		}
		s.left = !s.yield(e, nil)
	}
	if id != "" {
		s.query.After = id
	}
	return nil
}

// EventPage returns up to limit stored events after q.After. limit is at most 1,000; 0 = 100.
func (c *Client) EventPage(ctx context.Context, q EventQuery, limit int) (api.EventPage, error) {
	var out api.EventPage
	v := q.values("after_seq")
	if limit > 0 {
		v.Set("limit", fmt.Sprint(limit))
	}
	_, err := c.do(ctx, call{method: http.MethodGet, path: "/api/v1/cluster/events?" + v.Encode(), out: &out, repeat: repeatAlways})
	return out, err
}

// JobEvents returns the history of a job, the oldest event first.
func (c *Client) JobEvents(ctx context.Context, jobID string, r Read) (api.JobEvents, error) {
	var out api.JobEvents
	_, err := c.do(ctx, call{method: http.MethodGet, path: "/api/v1/jobs/" + url.PathEscape(jobID) + "/events" + r.query(), out: &out, repeat: repeatAlways})
	return out, err
}
