package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/corvo/corvo/api"
)

// fetched holds the jobs of a response. A job that cannot be decoded does not affect the others.
type fetched struct {
	one    bool // the response is one job, not a list
	jobs   []api.FetchedJob
	unread []unreadJob
}

// unreadJob is a job that could be decoded only in part, with the reason.
type unreadJob struct {
	api.FetchedJob
	err error
}

// read decodes a response. After an error f has the jobs that were decoded. The others have no id or lease token
// that can be decoded, so the client cannot fail them and they stay leased until their leases expire.
func (f *fetched) read(text []byte) error {
	f.jobs, f.unread = nil, nil // drop the jobs of an earlier try
	if f.one {
		_, err := f.add(text)
		return err
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
	var lost []error
	for i, job := range each.Jobs {
		if id, err := f.add(job); err != nil {
			lost = append(lost, fmt.Errorf("job %d of %d (%q) stays leased until its lease expires, because the client cannot read its id or lease token: %w", i+1, len(each.Jobs), id, err))
		}
	}
	return errors.Join(lost...)
}

// add decodes one job and returns its id. The error means that its id or its lease token could not be decoded.
func (f *fetched) add(text []byte) (id string, err error) {
	var j api.FetchedJob
	err = json.Unmarshal(text, &j) // after a faulty field json decodes the others too, such as id and token
	switch {
	case err == nil:
		f.jobs = append(f.jobs, j)
	case j.JobID == "" || j.LeaseToken == "":
		return j.JobID, err
	default:
		f.unread = append(f.unread, unreadJob{j, fmt.Errorf("the worker cannot read the job: %w", err)})
	}
	return j.JobID, nil
}

// refuse fails the jobs that cannot be decoded, because the next attempt could not decode them either. It
// returns their errors only if f has no other jobs. If it cannot tell the server that a job failed, it
// returns an error for that job, which stays leased until its lease expires.
func (f *fetched) refuse(ctx context.Context, c *Client) error {
	ctx = WithIdempotencyKey(ctx, "") // drop the key of the fetch: one key is for one write
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
