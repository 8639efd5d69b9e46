package client

import (
	"net/http"
	"testing"

	"github.com/corvo/corvo/api"
)

// A schedule has the version of its ETag, and a write with a version requires it.
func TestScheduleVersions(t *testing.T) {
	t.Parallel()
	tagged := func(tag string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			w.Header().Set("ETag", tag)
			says(200, `{"id":"sched_1"}`)(w)
		}
	}
	c, server, _ := against(t, tagged(`"7"`), tagged(`"8"`), tagged(`"9"`), tagged(`W/"9"`), tagged(`9`), says(200, `{}`), says(200, `{}`))
	ctx := t.Context()
	for i, want := range []int64{7, 8, 9, 0, 0} {
		var s api.Schedule
		var err error
		switch i {
		case 1:
			s, err = c.PutSchedule(ctx, "sched_1", api.ScheduleRequest{}, 7)
		case 2:
			s, err = c.PutSchedule(ctx, "sched_1", api.ScheduleRequest{}, 0)
		default:
			s, err = c.Schedule(ctx, "sched_1", Read{})
		}
		if err != nil || s.ID != "sched_1" || s.Version != want {
			t.Errorf("answer %d: %+v, %v; want version %d", i, s, err, want)
		}
	}
	for _, version := range []int64{0, 9} {
		if err := c.DeleteSchedule(ctx, "sched_1", version); err != nil {
			t.Error(err)
		}
	}
	all, _ := server.requests()
	for i, want := range []string{"", `"7"`, "", "", "", "", `"9"`} {
		if got := all[i].Header.Get("If-Match"); got != want {
			t.Errorf("request %d has If-Match %q, want %q", i, got, want)
		}
	}
}
