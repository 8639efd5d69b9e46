package api

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestJobFields checks that the JSON of an empty job has every field of the contract.
func TestJobFields(t *testing.T) {
	t.Parallel()
	const contract = `id queue state payload priority attempt max_retries retry_backoff retry_base_delay_ms
		retry_max_delay_ms unique_key batch_id worker_id hostname tags headers progress checkpoint result lease_expires_at
		scheduled_at expire_at parent_id chain_id chain_step chain_config created_at started_at completed_at failed_at
		errors agent hold_reason usage cost_usd last_error worker unique_period expire_after attempts
		blocked_by dependency_policy schedule_id cancelling cancelled_at retry_jitter_percent
		hold fairness_key fairness_weight provider model cost_estimate_usd replay_of waiting_for result_schema`
	sameFields(t, Job{}, contract)
	sameFields(t, JobError{}, "id job_id attempt error backtrace created_at")
	sameFields(t, JobWorker{}, "id hostname")
	sameFields(t, JobAgent{}, "max_iterations max_cost_usd iteration_timeout iteration total_cost_usd")
	sameFields(t, JobHold{}, "by name")
	sameFields(t, JobAttempt{}, "attempt worker_id started_at ended_at outcome")
	sameFields(t, Queue{}, `name paused max_concurrency rate_limit rate_window_ms created_at pending active held completed
		dead cancelled scheduled retrying enqueued failed oldest_pending_at status rate_per_minute unique_locks provider priority_ageing_ms
		max_length on_full retention defaults`)
}

func sameFields(t *testing.T, v any, contract string) {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		t.Fatal(err)
	}
	got, want := slices.Sorted(maps.Keys(fields)), slices.Sorted(slices.Values(strings.Fields(contract)))
	if !slices.Equal(got, want) {
		t.Errorf("%T has the fields\n%q\nwant\n%q", v, got, want)
	}
}
