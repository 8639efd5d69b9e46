package convert

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/view"
)

// fuzzNow is the time on the clock of the conversions.
const fuzzNow = 1_700_000_000_000_000_000

// FuzzDecode feeds bodies to the path from JSON to op. The conversion must neither panic nor return an op
// that would then be refused.
func FuzzDecode(f *testing.F) {
	for route := range uint8(len(decoders)) {
		for _, body := range []string{
			`{}`, `null`, `[]`, `{"queue":"q"}`, `{"queue":"q","payload":{"a":[1,"x",null]},"priority":1,"tags":{"a":null,"b":"c"}}`,
			`{"queue":"q","scheduled_at":"2262-04-11T23:47:16.9Z","retry_base_delay":"5s","retry_max_delay":"","max_retries":1000}`,
			`{"jobs":[{"queue":"q"},{"queue":"p","unique_key":"u"}],"batch":{}}`,
			`{"queue":"q","payload":{"p":1},"chain":{"steps":[{"queue":"q"},{"queue":"r","payload":{}}],"on_failure":"f","on_exit":{"queue":"x"}}}`,
			`{"queue":"q","chain":{"steps":[{"queue":"q"}],"on_failure":{"queue":"f","payload":{}}}}`,
			`{"queues":["a","a","b"],"timeout":60,"lease_duration":86400,"count":600}`,
			`{"result":{},"checkpoint":1,"usage":{"input_tokens":1,"cost_usd":0.000000001},"lease_token":"00112233445566778899aabbccddeeff"}`,
			`{"acks":[{"job_id":"job_00000000000000000000000000","step_status":"exit"}]}`,
			`{"error":"x","backtrace":"y","worker_id":"w"}`,
			`{"jobs":{"job_00000000000000000000000000":{"progress":1,"lease_duration":5},"x":null}}`,
			`{"queue":"q","state":["dead"],"order":"asc","limit":1000,"priority":0,"sort":"attempt"}`,
			`{"name":"n","roles":["admin"],"queue_scope":["a*"],"expires_at":"2030-01-01T00:00:00Z"}`,
		} {
			f.Add(route, []byte(body))
		}
	}
	f.Fuzz(func(t *testing.T, route uint8, body []byte) {
		d := decoders[int(route)%len(decoders)]
		var faults Faults
		o, err := d(&faults, body)
		if err != nil || faults.Any() || o == nil {
			if faults.Any() && faults.Err() == nil {
				t.Error("faults without an error")
			}
			return
		}
		if err := o.Validate(); err != nil {
			t.Errorf("%T: the conversion let through: %v", o, err)
		}
	})
}

var fuzzID = job.ID{1, 2, 3}

// decoders lists the conversions. Each turns a body into an op, or into nothing if its request makes none.
var decoders = []func(*Faults, []byte) (op.Op, error){
	func(f *Faults, body []byte) (op.Op, error) {
		var b EnqueueBody
		err := into(body, &b)
		return created(FromEnqueue(f, &b, fuzzNow, job.DefaultMaxPayload)), err
	},
	func(f *Faults, body []byte) (op.Op, error) {
		var b EnqueueBatchBody
		err := into(body, &b)
		return created(FromEnqueueBatch(f, &b, fuzzNow, job.DefaultMaxPayload)...), err
	},
	func(f *Faults, body []byte) (op.Op, error) {
		var b api.FetchBatchRequest
		err := into(body, &b)
		ask := FromFetchBatch(f, &b)
		return ask.Op(&op.Meta{LeaseSeed: make([]byte, 16)}), err
	},
	func(f *Faults, body []byte) (op.Op, error) {
		var b AckBody
		err := into(body, &b)
		return &op.Ack{Items: []*op.AckItem{FromAck(f, fuzzID, &b)}}, err
	},
	func(f *Faults, body []byte) (op.Op, error) {
		var b api.FailRequest
		err := into(body, &b)
		return &op.Fail{Items: []*op.FailItem{FromFail(f, fuzzID, &b)}}, err
	},
	func(f *Faults, body []byte) (op.Op, error) {
		var b api.HeartbeatRequest
		err := into(body, &b)
		o := &op.Heartbeat{}
		for _, beat := range FromHeartbeat(f, &b) {
			if beat.Item != nil {
				o.Items = append(o.Items, beat.Item)
			}
		}
		if len(o.Items) == 0 {
			return nil, err
		}
		return o, err
	},
	func(f *Faults, body []byte) (op.Op, error) {
		var b api.SearchRequest
		err := into(body, &b)
		if _, wrong := view.ParseSearch(b); wrong != nil {
			f.Invalid("search", "%v", wrong)
		}
		return nil, err
	},
	func(f *Faults, body []byte) (op.Op, error) {
		var b api.CreateKeyRequest
		err := into(body, &b)
		k := FromCreateKey(f, &b, time.Unix(0, fuzzNow))
		k.ID = "k"
		return &op.CreateKey{Key: ToKeyRecord(k)}, err
	},
}

func into(body []byte, v any) error {
	return serve.Decode(httptest.NewRequest("POST", "/", nil), body, v)
}

func created(jobs ...*op.NewJob) op.Op {
	o := &op.Enqueue{Meta: &op.Meta{}, Jobs: jobs}
	for i, n := range jobs {
		id := job.NewID(fuzzNow/1e6, n.Queue, job.Entropy{1: byte(i), 2: byte(i >> 8)})
		o.Meta.Ids = append(o.Meta.Ids, id[:])
	}
	if len(jobs) == 0 {
		return nil
	}
	return o
}
