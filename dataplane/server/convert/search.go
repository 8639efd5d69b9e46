package convert

import (
	"net/url"
	"strconv"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/text"
	"github.com/corvo/corvo/dataplane/job"
)

// FromDead converts the request for a page of dead jobs to a search.
func FromDead(f *Faults, query url.Values) api.SearchRequest {
	return api.SearchRequest{
		SearchFilter: api.SearchFilter{Queue: query.Get("queue"), State: []string{job.Dead.Word()}},
		Cursor:       query.Get("cursor"),
		Limit:        FromLimit(f, query),
	}
}

// FromLimit converts the number of jobs on a page; it returns nil if the request sets none. The parser of the
// search checks the bounds.
func FromLimit(f *Faults, query url.Values) *int {
	given := query.Get("limit")
	if given == "" {
		return nil
	}
	n, err := strconv.Atoi(given)
	if err != nil {
		f.Invalid("limit", "%s is not a number", text.Quote(given))
	}
	return &n
}

// FromJobIDs converts job ids, with nil in the place of each text that is not a job id. It refuses more than
// job.MaxBulkGet ids.
func FromJobIDs(f *Faults, texts []string) []*job.ID {
	if n := len(texts); n > job.MaxBulkGet {
		f.Invalid("job_ids", "has %d ids, at most %d are taken at once: ask for the rest by another request", n, job.MaxBulkGet)
		return nil
	}
	ids := make([]*job.ID, len(texts))
	for i, text := range texts {
		if id, err := job.ParseID(text); err == nil {
			ids[i] = &id
		}
	}
	return ids
}
