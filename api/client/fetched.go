package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/corvo/corvo/api"
)

// fetched are the jobs of an answer. One that cannot be read keeps nobody from the others.
type fetched struct {
	one    bool // the answer is a job, not a list of some
	jobs   []api.FetchedJob
	unread []unreadJob
}

// unreadJob is a job with what could be read of it, and why it was not all.
type unreadJob struct {
	api.FetchedJob
	err error
}

// decode reads an answer. An error is about all of it that is not in f.
func (f *fetched) decode(text []byte) error {
	f.jobs, f.unread = nil, nil // of an earlier try
	if f.one {
		return f.add(text)
	}
	var all api.FetchBatchResponse
	whole := json.Unmarshal(text, &all)
	if whole == nil {
		f.jobs = all.Jobs
		return nil
	}
	// One by one: a decoder of values counts the depth of each from where it begins.
	d := json.NewDecoder(bytes.NewReader(text))
	if !enterJobs(d) {
		return whole
	}
	for d.More() {
		var job json.RawMessage
		if err := d.Decode(&job); err != nil {
			return err
		}
		if err := f.add(job); err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

// enterJobs goes to the first job of a list of some.
func enterJobs(d *json.Decoder) bool {
	for at, err := d.Token(); err == nil; at, err = d.Token() {
		if at == "jobs" {
			at, err = d.Token()
			return err == nil && at == json.Delim('[')
		}
		if at == json.Delim('{') {
			continue
		}
		var other json.RawMessage
		if d.Decode(&other) != nil {
			return false
		}
	}
	return false
}

// add reads one job. It is an error where it is not known which.
func (f *fetched) add(text []byte) error {
	var j api.FetchedJob
	err := json.Unmarshal(text, &j) // reads on behind a field that does not fit
	switch {
	case err == nil:
		f.jobs = append(f.jobs, j)
	case j.JobID == "" || j.LeaseToken == "":
		return err
	default:
		f.unread = append(f.unread, unreadJob{j, fmt.Errorf("the worker cannot read the job: %w", err)})
	}
	return nil
}

// refuse tells the server that the jobs which cannot be read have failed: they would be
// as unreadable the next time. It is an error where there are no others.
func (f *fetched) refuse(ctx context.Context, c *Client) error {
	var errs []error
	for _, j := range f.unread {
		_, err := c.Fail(ctx, j.JobID, api.FailRequest{LeaseToken: j.LeaseToken, Error: cut(j.err.Error(), errorBytes)})
		errs = append(errs, fmt.Errorf("job %s: %w", j.JobID, j.err))
		if err != nil {
			errs = append(errs, fmt.Errorf("job %s: the server cannot be told that it failed: %w", j.JobID, err))
		}
	}
	if len(f.jobs) > 0 {
		return nil
	}
	return errors.Join(errs...)
}
