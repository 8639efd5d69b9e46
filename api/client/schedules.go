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

// Schedules lists the schedules of the queues the key may see, by name.
func (c *Client) Schedules(ctx context.Context, r Read) ([]api.Schedule, error) {
	var out []api.Schedule
	_, err := c.do(ctx, call{method: http.MethodGet, path: "/api/v1/schedules" + r.query(), out: &out, repeat: repeatAlways})
	return out, err
}

// Schedule is one schedule, with its version.
func (c *Client) Schedule(ctx context.Context, id string, r Read) (api.Schedule, error) {
	return c.schedule(ctx, call{method: http.MethodGet, path: schedulePath(id, "") + r.query(), repeat: repeatAlways})
}

// schedule makes a call whose answer is one schedule.
func (c *Client) schedule(ctx context.Context, k call) (api.Schedule, error) {
	var out api.Schedule
	k.out, k.version = &out, &out.Version
	_, err := c.do(ctx, k)
	return out, err
}

// CreateSchedule makes a schedule.
func (c *Client) CreateSchedule(ctx context.Context, req api.ScheduleRequest) (api.Schedule, error) {
	return c.schedule(ctx, call{method: http.MethodPost, path: "/api/v1/schedules", body: req, repeat: repeatKeyed})
}

// PutSchedule replaces a schedule. With a version other than 0 only if it is still
// at that.
func (c *Client) PutSchedule(ctx context.Context, id string, req api.ScheduleRequest, version int64) (api.Schedule, error) {
	return c.schedule(ctx, call{method: http.MethodPut, path: schedulePath(id, ""), body: req, ifMatch: version, repeat: repeatKeyed})
}

// DeleteSchedule removes a schedule, with a version other than 0 only if it is still
// at that; the jobs it has made stay.
func (c *Client) DeleteSchedule(ctx context.Context, id string, version int64) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: schedulePath(id, ""), ifMatch: version, repeat: repeatKeyed})
	return err
}

// RunSchedule makes a schedule's job now, besides its times, and answers its id.
func (c *Client) RunSchedule(ctx context.Context, id string) (string, error) {
	var out api.ScheduleRunResponse
	_, err := c.do(ctx, call{method: http.MethodPost, path: schedulePath(id, "/run"), out: &out, repeat: repeatKeyed})
	return out.JobID, err
}

// PauseSchedule stops a schedule.
func (c *Client) PauseSchedule(ctx context.Context, id string) error {
	_, err := c.do(ctx, call{method: http.MethodPost, path: schedulePath(id, "/pause"), repeat: repeatAlways})
	return err
}

// ResumeSchedule undoes PauseSchedule; what was missed is not made up for.
func (c *Client) ResumeSchedule(ctx context.Context, id string) error {
	_, err := c.do(ctx, call{method: http.MethodPost, path: schedulePath(id, "/resume"), repeat: repeatAlways})
	return err
}

// NextRuns is when a schedule runs next, n times from now on.
func (c *Client) NextRuns(ctx context.Context, id string, n int) ([]api.Time, error) {
	var out []api.Time
	_, err := c.do(ctx, call{method: http.MethodGet, path: schedulePath(id, "/next?n="+strconv.Itoa(n)), out: &out, repeat: repeatAlways})
	return out, err
}
