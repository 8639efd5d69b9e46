package provider_test

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/corvo/corvo/api"
)

// lasting parses a duration that the provider has checked.
func lasting(d api.Duration) time.Duration {
	v, err := d.Parse(0)
	if err != nil {
		panic(err) // the provider's schema lets no other pass
	}
	return v
}

// normal returns a duration in a server's own form, because a server does not keep the text of the request.
func normal(d api.Duration) api.Duration {
	if d == "" || d == api.Forever {
		return d
	}
	return api.DurationOf(lasting(d))
}

func normalRetention(r *api.QueueRetention) *api.QueueRetention {
	if r == nil || *r == (api.QueueRetention{}) {
		return nil
	}
	return &api.QueueRetention{Completed: normal(r.Completed), Dead: normal(r.Dead), Cancelled: normal(r.Cancelled)}
}

func normalDefaults(d *api.QueueDefaults) *api.QueueDefaults {
	if d == nil || *d == (api.QueueDefaults{}) {
		return nil
	}
	n := *d
	for _, delay := range []**api.Duration{&n.RetryBaseDelay, &n.RetryMaxDelay} {
		if *delay != nil {
			text := normal(**delay)
			*delay = &text
		}
	}
	n.ExpireAfter = normal(n.ExpireAfter)
	return &n
}

// scheduleFrom builds the schedule that a server makes from a request, with its defaults.
func (p *peer) scheduleFrom(r *http.Request) (*api.Schedule, error) {
	var req api.ScheduleRequest
	if err := decode(r, &req); err != nil {
		return nil, err
	}
	if r.Header.Get("Idempotency-Key") == "" {
		return nil, api.Errorf(api.ValidationError, "a schedule's write without an Idempotency-Key")
	}
	if strings.Contains(req.Cron, "99") {
		return nil, refuse("cron", "has a minute 99")
	}
	level, ok, err := req.Priority.Level()
	if err != nil {
		return nil, refuse("priority", err.Error())
	}
	if !ok {
		level = 2
	}
	s := &api.Schedule{
		Name: req.Name, Queue: req.Queue, Cron: req.Cron, Timezone: cmp.Or(req.Timezone, "UTC"),
		Payload: req.Payload, MaxRetries: 3, Priority: level, Tags: req.Tags, Headers: req.Headers,
		Missed: cmp.Or(req.Missed, api.MissedOnce), Jitter: api.DurationOf(lasting(req.Jitter)), Paused: req.Paused != nil && *req.Paused,
	}
	if req.UniqueKey != "" {
		s.UniqueKey = &req.UniqueKey
	}
	if req.MaxRetries != nil {
		s.MaxRetries = *req.MaxRetries
	}
	if len(s.Payload) == 0 {
		s.Payload = []byte("{}")
	}
	return s, nil
}

// answerSchedule returns a schedule in the form of a read, with another next run each time.
func (p *peer) answerSchedule(s *api.Schedule) api.Schedule {
	now := *s
	if !now.Paused {
		p.last++
		next := api.TimeOf(time.Date(2099, 1, 1, 0, p.last, 0, 0, time.UTC))
		now.NextRun = &next
	}
	return now
}

func (p *peer) createSchedule(r *http.Request) (any, error) {
	ns, err := p.enter(r)
	if err != nil {
		return nil, err
	}
	s, err := p.scheduleFrom(r)
	if err != nil {
		return nil, err
	}
	s.ID, s.Version = p.id("sched"), 1
	ns.schedules[s.ID] = s
	return p.answerSchedule(s), nil
}

func (p *peer) schedule(r *http.Request) (*peerNamespace, *api.Schedule, error) {
	ns, err := p.enter(r)
	if err != nil {
		return nil, nil, err
	}
	s, ok := ns.schedules[r.PathValue("id")]
	if !ok {
		return nil, nil, api.Errorf(api.NotFound, "there is no schedule %s", r.PathValue("id"))
	}
	return ns, s, nil
}

func (p *peer) getSchedule(r *http.Request) (any, error) {
	_, s, err := p.schedule(r)
	if err != nil {
		return nil, err
	}
	return p.answerSchedule(s), nil
}

func (p *peer) putSchedule(r *http.Request) (any, error) {
	ns, was, err := p.schedule(r)
	if err != nil {
		return nil, err
	}
	s, err := p.scheduleFrom(r)
	if err != nil {
		return nil, err
	}
	switch text, err := strconv.Unquote(r.Header.Get("If-Match")); {
	case err != nil:
		return nil, api.Errorf(api.ValidationError, "a schedule's update without If-Match")
	case text != strconv.FormatInt(was.Version, 10):
		return nil, api.Errorf(api.PreconditionFailed, "schedule %s has version %d, not %s: read it again", was.ID, was.Version, text)
	}
	s.ID, s.Version = was.ID, was.Version+1
	ns.schedules[s.ID] = s
	return p.answerSchedule(s), nil
}

func (p *peer) pauseSchedule(r *http.Request) (any, error) {
	_, s, err := p.schedule(r)
	if err != nil {
		return nil, err
	}
	s.Paused, s.Version = true, s.Version+1
	return api.Status{}, nil
}

func (p *peer) deleteSchedule(r *http.Request) (any, error) {
	ns, s, err := p.schedule(r)
	if err != nil {
		return nil, err
	}
	delete(ns.schedules, s.ID)
	return api.Status{}, nil
}
