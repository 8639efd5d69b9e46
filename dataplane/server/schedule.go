package server

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/api/text"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/server/convert"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/tenancy"
)

// Bounds of GET /schedules/{id}/next.
const (
	defaultNextRuns = 10
	maxNextRuns     = 100
)

func (s *Server) listSchedules(w http.ResponseWriter, r *http.Request) error {
	q, home, err := s.atHome(r)
	if err != nil {
		return err
	}
	snapshot := home.State().Snapshot()
	defer snapshot.Close()
	all := []api.Schedule{}
	for rec, err := range snapshot.Schedules() {
		if err != nil {
			return err
		}
		if q.who.Covers(rec.Queue) {
			all = append(all, convert.ToSchedule(rec))
		}
	}
	slices.SortFunc(all, func(a, b api.Schedule) int { return strings.Compare(a.Name, b.Name) })
	return serve.WriteJSON(w, http.StatusOK, all)
}

func (s *Server) createSchedule(w http.ResponseWriter, r *http.Request) error {
	var body api.ScheduleRequest
	q, err := s.begin(r, &body)
	if err != nil {
		return err
	}
	rec, err := s.scheduleFrom(&q, &body)
	if err != nil {
		return err
	}
	id := q.shards.Home().NewID(rec.Queue)
	rec.Id = id[:]
	result, err := commit[*op.PutScheduleResult](s, w, r, &q, q.shards.Home(), &op.PutSchedule{Meta: q.meta, Schedule: rec, Create: true})
	if err != nil {
		return err
	}
	return writeVersion(w, http.StatusCreated, result.Schedule.Version, convert.ToSchedule(result.Schedule))
}

func (s *Server) getSchedule(w http.ResponseWriter, r *http.Request) error {
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	rec, err := s.readSchedule(r, &q)
	if err != nil {
		return err
	}
	return writeVersion(w, http.StatusOK, rec.Version, convert.ToSchedule(rec))
}

// putSchedule replaces a schedule. The caller needs the right to the schedule's old and new queue.
func (s *Server) putSchedule(w http.ResponseWriter, r *http.Request) error {
	var body api.ScheduleRequest
	q, err := s.begin(r, &body)
	if err != nil {
		return err
	}
	was, err := s.presentSchedule(r, &q)
	if err != nil {
		return err
	}
	rec, err := s.scheduleFrom(&q, &body)
	if err != nil {
		return err
	}
	rec.Id = was.Id
	o := &op.PutSchedule{Meta: q.meta, Schedule: rec}
	if o.IfVersion, err = ifMatch(r, was.Version); err != nil {
		return err
	}
	result, err := commit[*op.PutScheduleResult](s, w, r, &q, q.shards.Home(), o)
	if err != nil {
		return err
	}
	return writeVersion(w, http.StatusOK, result.Schedule.Version, convert.ToSchedule(result.Schedule))
}

func (s *Server) deleteSchedule(w http.ResponseWriter, r *http.Request) error {
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	rec, err := s.presentSchedule(r, &q)
	if err != nil {
		return err
	}
	o := &op.DeleteSchedule{Meta: q.meta, Id: rec.Id}
	if o.IfVersion, err = ifMatch(r, rec.Version); err != nil {
		return err
	}
	if _, err := commit[*op.DeleteScheduleResult](s, w, r, &q, q.shards.Home(), o); err != nil {
		return err
	}
	return serve.WriteJSON(w, http.StatusOK, api.Status{Status: "deleted"})
}

func (s *Server) runSchedule(w http.ResponseWriter, r *http.Request) error {
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	rec, err := s.presentSchedule(r, &q)
	if err != nil {
		return err
	}
	o := &op.RunSchedules{Meta: q.meta, Runs: []*op.Run{{Id: rec.Id, ByHand: true}}}
	result, err := commit[*op.RunSchedulesResult](s, w, r, &q, q.shards.Home(), o)
	if err != nil {
		return err
	}
	if len(result.JobIds) == 0 {
		return api.Errorf(api.Conflict, "schedule %s created no job: another job holds its unique key %s, or the schedule was just deleted", job.ScheduleIDText(job.ID(rec.Id)), text.Quote(rec.UniqueKey))
	}
	return serve.WriteJSON(w, http.StatusOK, api.ScheduleRunResponse{Status: "ok", JobID: job.ID(result.JobIds[0]).String()})
}

func (s *Server) pauseSchedule(w http.ResponseWriter, r *http.Request) error {
	return s.setPaused(w, r, true, "paused")
}

func (s *Server) resumeSchedule(w http.ResponseWriter, r *http.Request) error {
	return s.setPaused(w, r, false, "resumed")
}

func (s *Server) setPaused(w http.ResponseWriter, r *http.Request, paused bool, status string) error {
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	rec, err := s.presentSchedule(r, &q)
	if err != nil {
		return err
	}
	o := &op.PauseSchedule{Meta: q.meta, Id: rec.Id, Paused: paused}
	if !paused {
		next, err := forecast(rec, q.shards.Home(), 1)
		if err != nil {
			return err
		}
		o.NextRunNs = next[0].UnixNano()
	}
	if _, err := commit[*op.PauseScheduleResult](s, w, r, &q, q.shards.Home(), o); err != nil {
		return err
	}
	return serve.WriteJSON(w, http.StatusOK, api.Status{Status: status})
}

func (s *Server) nextRuns(w http.ResponseWriter, r *http.Request) error {
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	rec, err := s.readSchedule(r, &q)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(cmp.Or(r.URL.Query().Get("n"), strconv.Itoa(defaultNextRuns)))
	if err != nil || n < 1 || n > maxNextRuns {
		return api.Errorf(api.ValidationError, "n %s: it takes 1 to %d", text.Quote(r.URL.Query().Get("n")), maxNextRuns)
	}
	runs, err := forecast(rec, q.shards.Home(), n)
	if err != nil {
		return err
	}
	all := make([]api.Time, len(runs))
	for i, at := range runs {
		all[i] = api.TimeOf(at)
	}
	return serve.WriteJSON(w, http.StatusOK, all)
}

// forecast returns up to n of the next due times of the schedule's cron expression, without jitter and as if
// the schedule were not paused. If there are none, the error is INVALID_CRON.
func forecast(rec *state.Schedule, home *cell.Cell, n int) ([]time.Time, error) {
	var f convert.Faults
	all, _ := convert.NextRuns(&f, rec, home.NowNs(), n)
	if err := f.Err(); err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, api.Errorf(api.InvalidCron, "cron %q is not due any more", rec.Cron)
	}
	return all, nil
}

// scheduleFrom builds the schedule of a body, for a queue that the caller may manage.
func (s *Server) scheduleFrom(q *request, body *api.ScheduleRequest) (*state.Schedule, error) {
	var f convert.Faults
	rec := convert.FromSchedule(&f, body, q.shards.Home().NowNs(), s.maxPayload)
	if err := f.Err(); err != nil {
		return nil, err
	}
	rec.Shard = q.shards.Of(rec.Queue).Shard()
	return rec, q.allow(tenancy.QueueManage, rec.Queue)
}

// readSchedule returns the schedule in the path, as fresh as the request asks.
func (s *Server) readSchedule(r *http.Request, q *request) (*state.Schedule, error) {
	if err := s.awaitState(r, q, q.shards.Home()); err != nil {
		return nil, err
	}
	return q.schedule(r)
}

// presentSchedule returns the schedule in the path with every write acknowledged before the request, because
// the schedule's present state decides whether the request may change it and when it runs next.
func (s *Server) presentSchedule(r *http.Request, q *request) (*state.Schedule, error) {
	if err := s.awaitPresent(r, q, q.shards.Home()); err != nil {
		return nil, err
	}
	return q.schedule(r)
}

// schedule returns the schedule in the path as the home shard has it on this node. It answers NOT_FOUND if
// the caller may not see the schedule's queue.
func (q *request) schedule(r *http.Request) (*state.Schedule, error) {
	text := r.PathValue("id")
	id, err := job.ParseScheduleID(text)
	if err != nil {
		return nil, noSchedule(text)
	}
	rec, err := q.shards.Home().State().Schedule(id)
	if err != nil {
		return nil, err
	}
	if rec == nil || !q.who.Covers(rec.Queue) {
		return nil, noSchedule(text)
	}
	return rec, nil
}

func noSchedule(given string) error {
	return api.Errorf(api.NotFound, "there is no schedule %s", text.Quote(given))
}
