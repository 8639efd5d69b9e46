package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// tampering changes the answers to fetches.
type tampering struct {
	http.RoundTripper
	old, new string
}

func (t tampering) RoundTrip(r *http.Request) (*http.Response, error) {
	a, err := t.RoundTripper.RoundTrip(r)
	if err != nil || !strings.Contains(r.URL.Path, "/fetch") {
		return a, err
	}
	text, err := io.ReadAll(a.Body)
	if err != nil {
		return nil, err
	}
	a.Body.Close()
	text = bytes.Replace(text, []byte(t.old), []byte(t.new), 1)
	a.Body, a.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	return a, nil
}

// misread returns a client for which a text in its fetched jobs is replaced.
func (n *node) misread(old, instead string) *client.Client {
	n.t.Helper()
	c, err := client.New(n.url, n.admin, client.WithRetries(0), client.WithHTTPClient(&http.Client{Transport: tampering{http.DefaultTransport, old, instead}}))
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(c.Close)
	return c
}

// A job that a worker cannot read fails with a reason, and the other jobs of the fetch are worked on.
func TestJobThatCannotBeReadFailsAlone(t *testing.T) {
	t.Parallel()
	for name, stream := range map[string]bool{"polls": false, "a stream that does not come through": true} {
		n := startNode(t, nil)
		once := 1
		var ids []string
		for _, req := range []api.EnqueueRequest{
			{Queue: "q", Payload: json.RawMessage(`1`)},
			{Queue: "q", MaxRetries: &once, Tags: api.Strings{"a": "odd"}},
			{Queue: "q", Payload: json.RawMessage(`3`)},
		} {
			out, err := n.client(n.admin).Enqueue(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, out.JobID)
		}
		w := &client.Worker{Client: n.misread(`{"a":"odd"}`, `5`), Stream: stream}
		n.work(w, "q", func(_ context.Context, j *client.Job) error {
			if len(j.Tags) > 0 {
				return errors.New("it is handled")
			}
			return nil
		})
		for _, i := range []int{0, 2} {
			n.settled(ids[i], "completed")
		}
		if j := n.settled(ids[1], "dead"); len(j.Errors) != 1 || !strings.Contains(j.Errors[0].Error, "cannot read the job") {
			t.Errorf("%s: %+v", name, j.Errors)
		}
	}
}

// A program that calls Fetch itself gets the jobs that can be read, and an error that names the others.
func TestFetchedJobsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	once, count, now := 1, 3, 0
	enqueue := func(tags ...string) (ids []string) {
		for _, tag := range tags {
			out, err := n.client(n.admin).Enqueue(t.Context(), api.EnqueueRequest{Queue: "q", MaxRetries: &once, Tags: api.Strings{"a": tag}})
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, out.JobID)
		}
		return ids
	}
	failed := func(id string) {
		t.Helper()
		if j := n.settled(id, "dead"); len(j.Errors) != 1 || !strings.Contains(j.Errors[0].Error, "cannot read the job") {
			t.Errorf("%+v", j.Errors)
		}
	}
	c := n.misread(`{"a":"odd"}`, `5`)
	batch := api.FetchBatchRequest{FetchRequest: api.FetchRequest{Queues: []string{"q"}, Timeout: &now}, Count: &count}
	ids := enqueue("x", "odd", "y")
	jobs, err := c.FetchBatch(t.Context(), batch)
	if err != nil {
		t.Fatal(err)
	}
	if len(jobs) != 2 || jobs[0].JobID != ids[0] || jobs[1].JobID != ids[2] {
		t.Errorf("fetched %v, want the first and the last of %v", jobs, ids)
	}
	failed(ids[1])
	alone := enqueue("odd")[0]
	if jobs, err := c.FetchBatch(t.Context(), batch); err == nil || !strings.Contains(err.Error(), alone) || len(jobs) != 0 {
		t.Errorf("%v, %v", jobs, err)
	}
	failed(alone)
	single := enqueue("odd")[0]
	if job, err := c.Fetch(t.Context(), batch.FetchRequest); err == nil || !strings.Contains(err.Error(), single) || job != nil {
		t.Errorf("%v, %v", job, err)
	}
	failed(single)
	if job, err := c.Fetch(t.Context(), batch.FetchRequest); job != nil || err != nil {
		t.Errorf("of an empty queue: %v, %v", job, err)
	}
	// The key applies to the fetch only, and not to the failures that follow.
	keyed := enqueue("odd", "z", "odd")
	*batch.Count = 2
	jobs, err = c.FetchBatch(client.WithIdempotencyKey(t.Context(), "batch"), batch)
	if err != nil || len(jobs) != 1 || jobs[0].JobID != keyed[1] {
		t.Errorf("%v, %v", jobs, err)
	}
	failed(keyed[0])
	if job, err := c.Fetch(client.WithIdempotencyKey(t.Context(), "single"), batch.FetchRequest); err == nil || strings.Contains(err.Error(), "cannot be told") || job != nil {
		t.Errorf("%v, %v", job, err)
	}
	failed(keyed[2])
}

// The caller also learns of a job that stays leased because the server could not be told of its failure.
func TestFetchedJobsWhoseFailureCannotBeTold(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	var ids []string
	for _, retries := range []int{1, 7} {
		out, err := n.client(n.admin).Enqueue(t.Context(), api.EnqueueRequest{Queue: "q", MaxRetries: &retries})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, out.JobID)
	}
	c := n.misread(`"max_retries":7`, `"max_retries":"7","job_id":"`+ids[0]+`"`) // this job has another lease
	count, now := 2, 0
	jobs, err := c.FetchBatch(t.Context(), api.FetchBatchRequest{FetchRequest: api.FetchRequest{Queues: []string{"q"}, Timeout: &now}, Count: &count})
	if err == nil || !strings.Contains(err.Error(), "the server cannot be told") {
		t.Errorf("the error is %v", err)
	}
	if len(jobs) != 1 || jobs[0].JobID != ids[0] {
		t.Errorf("fetched %v, want %s", jobs, ids[0])
	}
}
