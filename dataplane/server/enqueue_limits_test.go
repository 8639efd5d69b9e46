package server_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
)

// Invalid keys, times and parents of an enqueue are refused with the name of the field: alone, in a batch
// request, and by a webhook. Nothing is written, not even the other jobs.
func TestEnqueueTermsRefused(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	before := n.dump()
	long := strings.Repeat("k", job.MaxUniqueKey+1)
	for _, c := range []struct{ body, query, fields string }{
		{`"unique_key":"` + long + `"`, `unique_key=` + long, "unique_key"},
		{`"unique_key":"k","unique_period":-1`, `unique_key=k&unique_period=-1`, "unique_period"},
		{`"unique_key":"k","unique_period":31536001`, `unique_key=k&unique_period=31536001`, "unique_period"},
		{`"unique_key":"k","unique_until":"done"`, `unique_key=k&unique_until=done`, "unique_until"},
		{`"unique_key":"k","unique_until":"Period"`, `unique_key=k&unique_until=Period`, "unique_until"},
		{`"unique_period":60`, `unique_period=60`, "unique_period"},
		{`"unique_until":"period"`, `unique_until=period`, "unique_until"},
		{`"debounce_key":"` + long + `","debounce":"1s"`, `debounce=1s&debounce_key=` + long, "debounce_key"},
		{`"debounce_key":"k"`, `debounce_key=k`, "debounce"},
		{`"debounce":"1s"`, `debounce=1s`, "debounce_key"},
		{`"debounce_key":"k","debounce":"0s"`, `debounce_key=k&debounce=0s`, "debounce"},
		{`"debounce_key":"k","debounce":"-1s"`, `debounce_key=k&debounce=-1s`, "debounce"},
		{`"debounce_key":"k","debounce":"1us"`, `debounce_key=k&debounce=1us`, "debounce"},
		{`"debounce_key":"k","debounce":"24h1ms"`, `debounce_key=k&debounce=24h1ms`, "debounce"},
		{`"debounce_key":"k","debounce":"1s","scheduled_at":"2001-01-01T00:00:00Z"`, `debounce_key=k&debounce=1s&scheduled_at=2001-01-01T00:00:00Z`, "scheduled_at"},
		{`"debounce_key":"k","debounce":"1s","unique_key":"k"`, `debounce_key=k&debounce=1s&unique_key=k`, "debounce_key"},
		{`"expire_after":"8760h1ms"`, `expire_after=8760h1ms`, "expire_after"},
		{`"expire_after":"0s"`, `expire_after=0s`, "expire_after"},
		{`"expire_after":"-1s"`, `expire_after=-1s`, "expire_after"},
		{`"expire_after":"soon"`, `expire_after=soon`, "expire_after"},
		{`"expire_after":"1.5us"`, `expire_after=1.5us`, "expire_after"},
		{`"parent_id":"nobody"`, `parent_id=nobody`, "parent_id"},
		{`"retry_jitter_percent":101`, `retry_jitter_percent=101`, "retry_jitter_percent"},
		{`"retry_jitter_percent":-1`, `retry_jitter_percent=-1`, "retry_jitter_percent"},
	} {
		for _, r := range []struct{ path, body, fields string }{
			{"enqueue", `{"queue":"q",` + c.body + `}`, c.fields},
			{"enqueue/batch", `{"jobs":[{"queue":"q"},{"queue":"q",` + c.body + `}]}`, "jobs[1]." + c.fields},
			{"webhooks/q?" + c.query, `{}`, c.fields},
		} {
			a := n.send("POST", "/api/v1/"+r.path, n.admin, r.body)
			if p := a.problem(t); a.status != 400 || p.Code != api.ValidationError || p.fields(t) != r.fields {
				t.Errorf("%.80s %.80s: %d %.300s", r.path, r.body, a.status, a.body)
			}
		}
	}
	n.same(before)
}

// The maximum of each option is accepted, and an empty value counts as absent.
func TestEnqueueTermsTaken(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	most := strings.Repeat("k", job.MaxUniqueKey)
	for i, terms := range []string{
		`"unique_key":"` + most + `","unique_period":31536000`,
		`"unique_key":"k","unique_period":1`,
		`"debounce_key":"` + most + `","debounce":"24h"`,
		`"debounce_key":"k","debounce":"1ms"`,
		`"expire_after":"8760h"`,
		`"retry_jitter_percent":100`,
		`"unique_key":"","unique_period":0,"unique_until":"","debounce_key":"","debounce":"","expire_after":"","parent_id":"","retry_jitter_percent":null`,
		`"unique_key":null,"unique_period":null,"unique_until":null,"debounce_key":null,"debounce":null,"expire_after":null,"parent_id":null`,
	} {
		if a := n.send("POST", "/api/v1/enqueue", n.admin, fmt.Sprintf(`{"queue":"q%d",%s}`, i, terms)); a.status != 201 {
			t.Errorf("%.80s: %d %s", terms, a.status, a.body)
		}
	}
}
