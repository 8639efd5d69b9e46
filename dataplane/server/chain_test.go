package server_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/tenancy"
)

// samePayload checks a payload byte for byte.
func samePayload(t *testing.T, what string, got json.RawMessage, want string) {
	t.Helper()
	if string(got) != want {
		t.Errorf("%s has payload %s, want %s", what, got, want)
	}
}

// acked acks a fetched job with further members of the body.
func (n *node) acked(j api.FetchedJob, more string) {
	n.t.Helper()
	n.do("POST", "/api/v1/ack/"+j.JobID, fmt.Sprintf(`{"lease_token":%q%s}`, j.LeaseToken, more), 200, nil)
}

// idle checks that no job of the queues can be fetched.
func (n *node) idle(queues ...string) {
	n.t.Helper()
	n.do("POST", "/api/v1/fetch", fmt.Sprintf(`{"queues":%s,"timeout":0}`, quoted(queues)), 204, nil)
}

// TestAChainGoesThroughItsSteps checks that three steps on any shards run in order. Each gets the result of
// the step before. Then on_exit runs once, even if workers repeat their acks.
func TestAChainGoesThroughItsSteps(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{1, 2} {
		t.Run(fmt.Sprint(shards), func(t *testing.T) {
			t.Parallel()
			n := startShards(t, shards, nil)
			last := shards - 1
			q := []string{onShard(0, shards, 0), onShard(last, shards, 1), onShard(0, shards, 2), onShard(last, shards, 3)}
			var made api.EnqueueResponse
			n.do("POST", "/api/v1/enqueue", fmt.Sprintf(`{"queue":%q,"payload":{"n":1e400},"priority":"high","tags":{"t":"1"},"headers":{"h":"2"},"max_retries":7,
				"chain":{"steps":[{"queue":%q},{"queue":%q},{"queue":%q,"payload":{"own":[]}}],"on_exit":{"queue":%q}}}`, q[0], q[0], q[1], q[2], q[3]), 201, &made)
			chain := "chain_" + strings.TrimPrefix(made.JobID, "job_")

			first := n.poll(quoted(q))
			samePayload(t, "the first step", first.Payload, `{"n":1e400}`)
			for range 2 {
				n.acked(first, `,"result":{"r":1}`)
			}
			second := n.poll(quoted(q))
			payload := fmt.Sprintf(`{"n":1e400,"previous":{"job_id":%q,"queue":%q,"result":{"r":1}}}`, first.JobID, q[0])
			samePayload(t, "the second step", second.Payload, payload)
			wantFields(t, "the second step", second, func(want *api.FetchedJob) {
				want.Queue, want.MaxRetries = q[1], 7
			})
			equal(t, "its tag", second.Tags["t"], "1")
			equal(t, "its header", second.Headers["h"], "2")
			doc := n.document(second.JobID)
			samePayload(t, "its document", doc.Payload, payload)
			config := fmt.Sprintf(`{"steps":[{"queue":%q},{"queue":%q},{"queue":%q,"payload":{"own":[]}}],"on_exit":{"queue":%q}}`, q[0], q[1], q[2], q[3])
			wantFields(t, "the second step's document", doc, func(want *api.Job) {
				want.ChainID, want.ChainStep, want.ChainConfig, want.Priority = &chain, ptr(1), json.RawMessage(config), 1
			})
			n.acked(second, ``)
			third := n.poll(quoted(q))
			samePayload(t, "the third step", third.Payload, fmt.Sprintf(`{"own":[],"previous":{"job_id":%q,"queue":%q,"result":null}}`, second.JobID, q[1]))

			// The last step is acked twice in a batch request.
			item := fmt.Sprintf(`{"job_id":%q,"lease_token":%q,"result":"end"}`, third.JobID, third.LeaseToken)
			n.do("POST", "/api/v1/ack/batch", `{"acks":[`+item+`,`+item+`]}`, 200, nil)
			end := n.poll(quoted(q))
			samePayload(t, "the end", end.Payload, fmt.Sprintf(`{"n":1e400,"outcome":"completed","previous":{"job_id":%q,"queue":%q,"result":"end"}}`, third.JobID, q[2]))
			if doc := n.document(end.JobID); doc.ChainID != nil || doc.ChainStep != nil || string(doc.ChainConfig) != "null" {
				t.Errorf("what follows the end is step %v of %v", doc.ChainStep, doc.ChainID)
			}
			n.acked(end, ``)
			n.idle(q...)
		})
	}
}

// A worker's exit ends the chain, in a single ack and in a batch request.
func TestAStepMayExit(t *testing.T) {
	t.Parallel()
	n := startShards(t, 1, nil)
	for _, batch := range []bool{false, true} {
		n.do("POST", "/api/v1/enqueue", `{"queue":"a","chain":{"steps":[{"queue":"a"},{"queue":"b"}],"on_exit":{"queue":"x"}}}`, 201, nil)
		j := n.poll(`["a"]`)
		if batch {
			n.do("POST", "/api/v1/ack/batch", fmt.Sprintf(`{"acks":[{"job_id":%q,"step_status":"exit"}]}`, j.JobID), 200, nil)
		} else {
			n.acked(j, `,"step_status":"exit"`)
		}
		end := n.poll(`["x","b"]`)
		samePayload(t, "the end", end.Payload, fmt.Sprintf(`{"outcome":"exited","previous":{"job_id":%q,"queue":"a","result":null}}`, j.JobID))
		n.idle("a", "b", "x")
	}
	n.do("POST", "/api/v1/enqueue", `{"queue":"a"}`, 201, nil)
	j := n.poll(`["a"]`)
	for status, want := range map[string]int{"skip": 400, "continue": 200} {
		n.do("POST", "/api/v1/ack/"+j.JobID, fmt.Sprintf(`{"step_status":%q}`, status), want, nil)
	}
}

// TestAStepThatDies checks that on_failure decides what follows a dead step.
func TestAStepThatDies(t *testing.T) {
	t.Parallel()
	n := startShards(t, 1, nil)
	for name, c := range map[string]struct{ onFailure, shown, next string }{
		"nothing said": {``, ``, ``},
		"stop":         {`"stop"`, ``, ``},
		"no word":      {`""`, ``, ``},
		"continue":     {`"continue"`, `"continue"`, `{"p":1,"previous":{"job_id":"ID","queue":"a","result":null}}`},
		"a queue":      {`"f"`, `{"queue":"f"}`, `{"p":1,"failure":{"job_id":"ID","queue":"a","attempt":1,"error":"it \"broke\""}}`},
		"a step":       {`{"queue":"f","payload":{"who":"ops"}}`, `{"queue":"f","payload":{"who":"ops"}}`, `{"who":"ops","failure":{"job_id":"ID","queue":"a","attempt":1,"error":"it \"broke\""}}`},
	} {
		said := ""
		if c.onFailure != "" {
			said = `"on_failure":` + c.onFailure + `,`
		}
		n.do("POST", "/api/v1/enqueue", `{"queue":"a","payload":{"p":1},"max_retries":1,"chain":{"steps":[{"queue":"a"},{"queue":"b"}],`+said+`"on_exit":{"queue":"x"}}}`, 201, nil)
		j := n.poll(`["a"]`)
		var config api.Chain
		if err := json.Unmarshal(n.document(j.JobID).ChainConfig, &config); err != nil || string(config.OnFailure) != c.shown {
			t.Errorf("%s: shown as %s, %v", name, config.OnFailure, err)
		}
		n.do("POST", "/api/v1/fail/"+j.JobID, `{"error":"it \"broke\""}`, 200, nil)
		id, queue := j.JobID, "a"
		if c.next != "" {
			next := n.poll(`["b","f"]`)
			samePayload(t, name, next.Payload, strings.ReplaceAll(c.next, "ID", j.JobID))
			if c.onFailure == `"continue"` {
				n.idle("x")
				n.do("POST", "/api/v1/fail/"+next.JobID, `{"error":"e"}`, 200, nil)
				id, queue = next.JobID, "b"
			}
		}
		end := n.poll(`["x"]`)
		samePayload(t, name+", the end", end.Payload, fmt.Sprintf(`{"p":1,"outcome":"failed","previous":{"job_id":%q,"queue":%q,"result":null}}`, id, queue))
		n.idle("a", "b", "f", "x")
	}
}

func TestChainsThatAreRefused(t *testing.T) {
	t.Parallel()
	n := startShards(t, 1, nil)
	steps := func(count int) string {
		return `{"queue":"a","chain":{"steps":[{"queue":"a"}` + strings.Repeat(`,{"queue":"b"}`, count-1) + `]}}`
	}
	bytes := func(count int) string { // two payloads of {"p":"x..."}
		own := count/2 - 8
		return fmt.Sprintf(`{"queue":"a","payload":{"p":"%s"},"chain":{"steps":[{"queue":"a"},{"queue":"b","payload":{"p":"%s"}}]}}`,
			strings.Repeat("x", own), strings.Repeat("x", count-own-16))
	}
	for body, want := range map[string]string{
		steps(100):     "",
		steps(101):     "chain.steps",
		bytes(1 << 20): "",
		`{"queue":"a","payload":{"p":1},"chain":{"steps":[{"queue":"a","payload":{"p":1}}]}}`:     "",
		`{"queue":"a","chain":{"on_exit":{"queue":"b"}}}`:                                         "chain.steps",
		`{"queue":"a","chain":{"steps":[{"queue":"b"}]}}`:                                         "chain.steps[0].queue",
		`{"queue":"a","chain":{"steps":[{"queue":"a","payload":{}}]}}`:                            "",
		`{"queue":"a","payload":{"p":1},"chain":{"steps":[{"queue":"a","payload":{ }}]}}`:         "",
		`{"queue":"a","payload":{"p":1},"chain":{"steps":[{"queue":"a","payload":{"p":2}}]}}`:     "chain.steps[0].payload",
		`{"queue":"a","payload":{},"chain":{"steps":[{"queue":"a","payload":[]}]}}`:               "chain.steps[0].payload",
		`{"queue":"a","payload":[1],"chain":{"steps":[{"queue":"a"}]}}`:                           "payload",
		`{"queue":"a","chain":{"steps":[{"queue":"a"},{"queue":"b!","payload":1}]}}`:              "chain.steps[1].payload chain.steps[1].queue",
		`{"queue":"a","chain":{"steps":[{"queue":"a"}],"on_exit":{"payload":"x"}}}`:               "chain.on_exit.payload chain.on_exit.queue",
		`{"queue":"a","chain":{"steps":[{"queue":"a"}],"on_failure":7}}`:                          "chain.on_failure",
		`{"queue":"a","chain":{"steps":[{"queue":"a"}],"on_failure":"go on"}}`:                    "chain.on_failure",
		`{"queue":"a","chain":{"steps":[{"queue":"a"}],"on_failure":{"queue":7}}}`:                "chain.on_failure",
		`{"queue":"a","chain":{"steps":[{"queue":"a"}],"on_failure":{"queue":"f","payload":[]}}}`: "chain.on_failure.payload",
	} {
		a := n.send("POST", "/api/v1/enqueue", "", body)
		if want == "" {
			if a.status != 201 {
				t.Errorf("%.90s: %d %s", body, a.status, a.body)
			}
			continue
		}
		p := a.problem(t)
		if got := p.fields(t); p.Code != api.ValidationError || got != want {
			t.Errorf("%.90s: %s of %s, want %s", body, p.Code, got, want)
		}
	}
	if p := n.do("POST", "/api/v1/enqueue", bytes(1<<20+1), 413, nil).problem(t); p.Code != api.PayloadTooLarge {
		t.Errorf("a chain too large: %s", p.Code)
	}
}

// A caller without the right to a queue may not enqueue there by a chain.
func TestAChainStaysInsideItsKeysScope(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	key := n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.Admin}, QueueScope: []tenancy.Glob{"a", "a.*"}})
	for chain, want := range map[string]int{
		`{"steps":[{"queue":"a"},{"queue":"a.b"}],"on_failure":"a.f","on_exit":{"queue":"a.x"}}`: 201,
		`{"steps":[{"queue":"a"},{"queue":"b"}]}`:                                                403,
		`{"steps":[{"queue":"a"}],"on_failure":"b"}`:                                             403,
		`{"steps":[{"queue":"a"}],"on_exit":{"queue":"b"}}`:                                      403,
	} {
		for path, body := range map[string]string{
			"enqueue":       `{"queue":"a","chain":` + chain + `}`,
			"enqueue/batch": `{"jobs":[{"queue":"a","chain":` + chain + `}]}`,
		} {
			if a := n.send("POST", "/api/v1/"+path, key, body); a.status != want {
				t.Errorf("%s: %d %s, want %d", chain, a.status, a.body, want)
			}
		}
	}
}
