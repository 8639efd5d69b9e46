package client

import (
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

// read reads an answer. An error is about all of it that is not in f.
func (f *fetched) read(text []byte) error {
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
	var each struct {
		Jobs []json.RawMessage `json:"jobs"`
	}
	if json.Unmarshal(text, &each) != nil || len(each.Jobs) == 0 {
		return whole
	}
	for _, job := range each.Jobs {
		if err := f.add(job); err != nil {
			return err
		}
	}
	return nil
}

// add reads one job. It is an error where it is not known which.
func (f *fetched) add(text []byte) error {
	var j api.FetchedJob
	err := json.Unmarshal(text, &j) // a field that does not fit leaves what came before it: the id and the token
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
// as unreadable the next time. It is an error where there are no others, and where the
// server cannot be told: the job stays leased.
func (f *fetched) refuse(ctx context.Context, c *Client) error {
	ctx = WithIdempotencyKey(ctx, "") // the fetch's, if any: one key is for one write
	var unread, untold []error
	for _, j := range f.unread {
		_, err := c.Fail(ctx, j.JobID, api.FailRequest{LeaseToken: j.LeaseToken, Error: cut(j.err.Error(), errorBytes)})
		unread = append(unread, fmt.Errorf("job %s: %w", j.JobID, j.err))
		if err != nil {
			untold = append(untold, fmt.Errorf("job %s: the server cannot be told that it failed: %w", j.JobID, err))
		}
	}
	if len(f.jobs) > 0 {
		unread = nil
	}
	return errors.Join(append(unread, untold...)...)
}
