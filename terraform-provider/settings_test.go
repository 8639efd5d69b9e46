package provider_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/terraform-provider/tftest"
)

const fullQueue = `resource "corvo_queue" "images" {
  name            = "images"
  max_concurrency = 10
  rate_limit      = 100
  rate_window_ms  = 60000
  max_length      = 100000
  on_full         = "drop_oldest"
  retention = {
    completed = "24h"
    dead      = "forever"
  }
  defaults = {
    priority             = "high"
    max_retries          = 5
    retry_backoff        = "linear"
    retry_base_delay     = "0s"
    retry_max_delay      = "90s"
    retry_jitter_percent = 0
    expire_after         = "1h"
  }
}`

// queueSettings sets every setting of a queue, writes it in other words, lets it drift, imports it, and
// leaves it out so that it returns to its default.
func queueSettings(t *testing.T, p *peer, tool *tftest.Tool) {
	d := tool.Dir(t, "CORVO_ENDPOINT="+p.URL)
	d.Write("main.tf", head+fullQueue)
	d.Apply()
	settled(t, d)
	d.Forget("corvo_queue.images")
	d.Import("corvo_queue.images", "images")
	d.Write("main.tf", head+strings.NewReplacer(`"24h"`, `"1440m"`, `"0s"`, `"0ms"`, `"90s"`, `"1m30s"`, `"1h"`, `"3600s"`).Replace(fullQueue))
	settled(t, d)

	p.look(func() {
		q := p.node.queues["images"]
		*q.MaxLength, *q.RateLimit, q.Defaults, q.Retention.Completed = 5, 7, nil, "1h0m0s"
	})
	if out := d.Apply(); !strings.Contains(out, "0 to add, 1 to change, 0 to destroy") || strings.Count(out, " -> ") != 3 {
		t.Errorf("terraform sees another drift:\n%s", out)
	}
	p.look(func() {
		q := p.node.queues["images"]
		got := api.Queue{MaxLength: q.MaxLength, RateLimit: q.RateLimit, RateWindowMs: q.RateWindowMs, OnFull: q.OnFull, Retention: q.Retention}
		want := api.Queue{
			MaxLength: new(int64(100000)), RateLimit: new(100), RateWindowMs: new(int64(60000)), OnFull: api.OnFullDropOldest,
			Retention: &api.QueueRetention{Completed: "24h0m0s", Dead: api.Forever},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the queue (-want +got):\n%s", diff)
		}
		if d := q.Defaults; *d.RetryBaseDelay != "0s" || *d.RetryJitterPercent != 0 {
			t.Errorf("the queue's defaults are a delay of %s, varied by %d %%", *d.RetryBaseDelay, *d.RetryJitterPercent)
		}
	})

	d.Write("main.tf", head+`resource "corvo_queue" "images" {
  name      = "images"
  retention = {}
}`)
	d.Apply()
	settled(t, d)
	p.look(func() {
		q := p.node.queues["images"]
		got := api.Queue{
			MaxConcurrency: q.MaxConcurrency, RateLimit: q.RateLimit, RateWindowMs: q.RateWindowMs, MaxLength: q.MaxLength,
			OnFull: q.OnFull, Retention: q.Retention, Defaults: q.Defaults,
		}
		if diff := cmp.Diff(api.Queue{OnFull: api.OnFullReject}, got); diff != "" {
			t.Errorf("what was left out stays (-want +got):\n%s", diff)
		}
	})
	d.Write("main.tf", head+strings.Replace(fullQueue, `"0s"`, `"91s"`, 1))
	says(t, d.ApplyFails(), "Cannot update queue images: VALIDATION_ERROR", `defaults = {`, "is shorter than")

	// An apply does not silently undo a change that came after the plan, also after an import.
	d.Forget("corvo_queue.images")
	d.Import("corvo_queue.images", "images")
	d.Write("main.tf", head+fullQueue)
	overtaken := func() {
		t.Helper()
		d.Setenv("TF_CLI_ARGS_apply", "-refresh=false")
		p.look(func() { q := p.node.queues["images"]; q.Paused = true; q.Version++ })
		says(t, d.ApplyFails(), "Cannot update queue images: PRECONDITION_FAILED", "changed it after Terraform had read it", "Run terraform plan")
		p.look(func() {
			if q := p.node.queues["images"]; !q.Paused {
				t.Errorf("what was not seen was undone: %+v", q)
			}
		})
		d.Setenv("TF_CLI_ARGS_apply", "")
	}
	overtaken()
	d.Apply()
	settled(t, d)
	d.Write("main.tf", head+strings.Replace(fullQueue, "= 10\n", "= 11\n", 1))
	overtaken()
}

const dailyReport = `resource "corvo_schedule" "daily" {
  name        = "daily report"
  queue       = "reports"
  cron        = "0 9 * * mon-fri"
  timezone    = "Europe/Berlin"
  payload     = jsonencode({ kind = "daily", parts = [1, 2] })
  unique_key  = "daily"
  max_retries = 5
  priority    = "high"
  missed      = "skip"
  jitter      = "90s"
  tags        = { team = "reports" }
  headers     = { "x-from" = "terraform" }
}`

// onlySchedule returns the node's one schedule.
func (p *peer) onlySchedule(t *testing.T) *api.Schedule {
	t.Helper()
	all := slices.Collect(maps.Values(p.node.schedules))
	if len(all) != 1 {
		t.Fatalf("there are %d schedules, want 1", len(all))
	}
	return all[0]
}

// scheduleLife takes a schedule through its life on a bare node. The scenario imports one in a cloud.
func scheduleLife(t *testing.T, p *peer, tool *tftest.Tool) {
	d := tool.Dir(t, "CORVO_ENDPOINT="+p.URL)
	d.Write("main.tf", head+dailyReport)
	d.Apply()
	settled(t, d)
	id := d.Attribute("corvo_schedule", "daily", "id").(string)

	// The same in other words; the schedule keeps those it has.
	d.Write("main.tf", head+strings.NewReplacer("0 9 * * mon-fri", " 0 9  * * MON-FRI", `jsonencode({ kind = "daily", parts = [1, 2] })`, `"{\"parts\": [1, 2], \"kind\": \"daily\"}"`, "90s", "1m30s").Replace(dailyReport))
	settled(t, d)

	// Drift, and all that may be left out: an update in place.
	p.look(func() { s := p.onlySchedule(t); s.Paused, s.Version = true, s.Version+1 })
	const rest = `resource "corvo_schedule" "daily" {
  name  = "report"
  queue = "other"
  cron  = "@daily"
}`
	d.Write("main.tf", head+rest)
	if out := d.Apply(); !strings.Contains(out, "0 to add, 1 to change, 0 to destroy") {
		t.Errorf("an update was none:\n%s", out)
	}
	settled(t, d)
	p.look(func() {
		s := p.onlySchedule(t)
		want := &api.Schedule{
			ID: id, Name: "report", Queue: "other", Cron: "@daily", Timezone: "UTC", Payload: json.RawMessage("{}"),
			MaxRetries: 3, Priority: 2, Missed: "once", Jitter: "0s", Version: 3,
		}
		if diff := cmp.Diff(want, s, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(*s, "CreatedAt", "NextRun")); diff != "" {
			t.Errorf("the schedule (-want +got):\n%s", diff)
		}
	})

	// An apply does not silently undo a change that came after the plan.
	d.Setenv("TF_CLI_ARGS_apply", "-refresh=false")
	p.look(func() { p.onlySchedule(t).Version++ })
	d.Write("main.tf", head+strings.Replace(rest, "other", "third", 1))
	says(t, d.ApplyFails(), "Cannot update schedule report: PRECONDITION_FAILED", "changed it after Terraform had read it", "version 4, not 3")
	d.Setenv("TF_CLI_ARGS_apply", "")

	p.look(func() { clear(p.node.schedules) })
	if out := d.Apply(); !strings.Contains(out, "1 to add, 0 to change, 0 to destroy") {
		t.Errorf("a schedule that is gone is not made again:\n%s", out)
	}
	refusedSchedules(t, d)
	d.Write("main.tf", head)
	d.Apply()
	p.look(func() {
		if len(p.node.schedules) != 0 {
			t.Error("the schedule is still there")
		}
	})
}

// refusedSchedules checks the refusals of the plan, and those that only the server can make.
func refusedSchedules(t *testing.T, d *tftest.Dir) {
	t.Helper()
	d.Write("main.tf", head+`resource "corvo_schedule" "daily" {
  name        = ""
  queue       = "a queue"
  cron        = "0 9 * *"
  payload     = "null"
  max_retries = 0
  priority    = "urgent"
  missed      = "sometimes"
  jitter      = "61m"
  tags        = { a = null }
}
resource "corvo_queue" "q" {
  name            = "q"
  max_concurrency = 1000001
  rate_limit      = 1
  max_length      = 0
  on_full         = "wait"
  retention       = { completed = "87601h" }
  defaults        = { expire_after = "1ns", retry_max_delay = "8761h", max_retries = 1001, retry_jitter_percent = 101 }
}`)
	says(t, d.ApplyFails(), "it has 4 fields, not 5", "it is null, which means no payload", "61m is not between 0s and 1h0m0s",
		"Attribute name string length", "Attribute queue 1 to 128 letters", "max_retries value must be between 1 and 1000, got: 0",
		"Attribute priority value must be one of", "Attribute missed value must be one of", "Null Map Value",
		"max_concurrency value must be between 1 and 1000000", `"rate_window_ms" must be specified when "rate_limit" is specified`,
		"max_length value must be between 1 and", "on_full value must be one of", "87601h is not between 1ms and 87600h0m0s",
		"1ns is not between 1ms", "8761h is not between", "got: 1001", "got: 101")
	d.Write("main.tf", head+`resource "corvo_schedule" "daily" {
  name  = "report"
  queue = "third"
  cron  = "99 * * * *"
}`)
	says(t, d.ApplyFails(), "Cannot update schedule report: VALIDATION_ERROR", `cron = "99 * * * *"`, "has a minute 99")
}
