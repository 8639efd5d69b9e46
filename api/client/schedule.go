package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/corvo/corvo/api"
)

func schedulePath(id, action string) string {
	return "/api/v1/schedules/" + url.PathEscape(id) + action
}

// Schedules lists the schedules of the queues that the key may see, sorted by name.
func (c *Client) Schedules(ctx context.Context, r Read) ([]api.Schedule, error) {
	var out []api.Schedule
	_, err := c.do(ctx, call{method: http.MethodGet, path: "/api/v1/schedules" + r.query(), out: &out, repeat: repeatAlways})
	return out, err
}

// Schedule returns one schedule, with its version.
func (c *Client) Schedule(ctx context.Context, id string, r Read) (api.Schedule, error) {
	return c.schedule(ctx, call{method: http.MethodGet, path: schedulePath(id, "") + r.query(), repeat: repeatAlways})
}

// schedule sends a call whose response is one schedule.
func (c *Client) schedule(ctx context.Context, k call) (api.Schedule, error) {
	var out api.Schedule
	k.out, k.version = &out, &out.Version
	_, err := c.do(ctx, k)
	return out, err
}

// CreateSchedule creates a schedule. The error is CONFLICT if another has its name, and INVALID_CRON if the
// cron expression is invalid.
func (c *Client) CreateSchedule(ctx context.Context, req api.ScheduleRequest) (api.Schedule, error) {
	return c.schedule(ctx, call{method: http.MethodPost, path: "/api/v1/schedules", body: req, repeat: repeatKeyed})
}

// PutSchedule replaces a schedule. An absent field gets its default; in particular, a paused schedule resumes
// unless req.Paused is true. The error is NOT_FOUND if the schedule does not exist, CONFLICT if another has
// its new name, and INVALID_CRON if the cron expression is invalid. If version is not 0 and the present
// version differs, the error is PRECONDITION_FAILED.
func (c *Client) PutSchedule(ctx context.Context, id string, req api.ScheduleRequest, version int64) (api.Schedule, error) {
	return c.schedule(ctx, call{method: http.MethodPut, path: schedulePath(id, ""), body: req, ifMatch: version, repeat: repeatKeyed})
}

// DeleteSchedule deletes a schedule. Its jobs stay. If version is not 0 and the present version differs,
// the error is PRECONDITION_FAILED.
func (c *Client) DeleteSchedule(ctx context.Context, id string, version int64) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: schedulePath(id, ""), ifMatch: version, repeat: repeatKeyed})
	return err
}

// RunSchedule creates a job of the schedule now, outside of its times and even during a pause, and returns
// the id of the job. The error is CONFLICT if another job holds the schedule's unique key, or if too many
// messages wait for the shard of the queue. In a namespace with several shards the server may not notice that
// another job holds the key: then no job with the returned id is created.
func (c *Client) RunSchedule(ctx context.Context, id string) (string, error) {
	var out api.ScheduleRunResponse
	_, err := c.do(ctx, call{method: http.MethodPost, path: schedulePath(id, "/run"), out: &out, repeat: repeatKeyed})
	return out.JobID, err
}

// PauseSchedule stops the runs of a schedule until ResumeSchedule, or until PutSchedule without Paused.
func (c *Client) PauseSchedule(ctx context.Context, id string) error {
	_, err := c.do(ctx, call{method: http.MethodPost, path: schedulePath(id, "/pause"), repeat: repeatAlways})
	return err
}

// ResumeSchedule ends a pause. Runs missed during the pause are not made up. The error is INVALID_CRON if the
// cron expression matches no more times.
func (c *Client) ResumeSchedule(ctx context.Context, id string) error {
	_, err := c.do(ctx, call{method: http.MethodPost, path: schedulePath(id, "/resume"), repeat: repeatAlways})
	return err
}

// NextRuns returns the next n times at which a schedule runs, without jitter and as if it were not paused. If
// n is not from 1 to 100, the error is VALIDATION_ERROR. There are fewer times if the cron expression matches
// no more; if it matches none, the error is INVALID_CRON.
func (c *Client) NextRuns(ctx context.Context, id string, n int) ([]api.Time, error) {
	var out []api.Time
	_, err := c.do(ctx, call{method: http.MethodGet, path: schedulePath(id, "/next?n="+strconv.Itoa(n)), out: &out, repeat: repeatAlways})
	return out, err
}
