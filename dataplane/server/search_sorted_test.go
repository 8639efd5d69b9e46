package server_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
)

// Sorted pages over shards contain every job once, in order, and jobs without a value last.
func TestSortedSearchOverShards(t *testing.T) {
	t.Parallel()
	const shards, count = 4, 44
	n := startShards(t, shards, nil)
	for i := range count {
		queue := onShard(i%shards, shards, i%2)
		n.do("POST", "/api/v1/enqueue", fmt.Sprintf(`{"queue":%q,"priority":%d,"retry_base_delay":"1h"}`, queue, i%3), 201, nil)
	}
	for i := range count / 2 {
		// From each shard in rotation, so that the times of all shards are mixed.
		var f api.FetchedJob
		n.do("POST", "/api/v1/fetch", fmt.Sprintf(`{"queues":[%q],"worker_id":"w"}`, onShard(i%shards, shards, i%2)), 200, &f)
		switch i % 5 {
		case 0, 1:
			n.do("POST", "/api/v1/ack/"+f.JobID, fmt.Sprintf(`{"lease_token":%q}`, f.LeaseToken), 200, nil)
		case 2:
			n.do("POST", "/api/v1/fail/"+f.JobID, fmt.Sprintf(`{"lease_token":%q,"error":"no"}`, f.LeaseToken), 200, nil)
			n.do("POST", "/api/v1/jobs/"+f.JobID+"/cancel", "", 200, nil)
		}
	}
	var all api.SearchResponse
	n.do("POST", "/api/v1/jobs/search?consistency=strong", `{"limit":1000}`, 200, &all)
	if len(all.Jobs) != count {
		t.Fatalf("%d jobs of %d", len(all.Jobs), count)
	}
	instant := func(at *api.Time) string { // comparable as text
		if at == nil {
			return ""
		}
		moment, _, err := at.Parse()
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%020d", moment.UnixNano())
	}
	for sort, value := range map[string]func(j *api.Job) string{
		"priority":     func(j *api.Job) string { return fmt.Sprint(j.Priority) },
		"attempt":      func(j *api.Job) string { return fmt.Sprint(j.Attempt) },
		"started_at":   func(j *api.Job) string { return instant(j.StartedAt) },
		"completed_at": func(j *api.Job) string { return instant(j.CompletedAt) },
	} {
		for _, order := range []string{"asc", "desc"} {
			want := make([]string, len(all.Jobs))
			for i := range all.Jobs {
				want[i] = value(&all.Jobs[i])
			}
			slices.SortFunc(want, func(a, b string) int {
				switch c := strings.Compare(a, b); {
				case a == "" || b == "":
					return cmp.Compare(len(b), len(a))
				case order == "desc":
					return -c
				default:
					return c
				}
			})
			if len(slices.Compact(slices.Clone(want))) < 2 {
				t.Fatalf("%s has one value only", sort)
			}
			for _, limit := range []int{1, 3, 7, count, 1000} {
				got, seen := walkSorted(t, n, sort, order, limit, count)
				values := make([]string, len(got))
				for i := range got {
					values[i] = value(&got[i])
				}
				if !slices.Equal(values, want) || seen != count {
					t.Errorf("%s %s, %d a page: %d jobs\n%q, want\n%q", sort, order, limit, seen, values, want)
				}
			}
		}
	}
}

// walkSorted returns all jobs of a sorted search, page by page, and the number of different ones. It starts again if a
// page is partial, because then a busy machine could not sort all jobs within the time limit of a search.
func walkSorted(t *testing.T, n *node, sort, order string, limit, count int) (got []api.Job, different int) {
	t.Helper()
	seen := map[string]bool{}
	for cursor, more := "", true; more; {
		var page api.SearchResponse
		n.do("POST", "/api/v1/jobs/search", fmt.Sprintf(`{"sort":%q,"order":%q,"limit":%d,"cursor":%q}`, sort, order, limit, cursor), 200, &page)
		if page.Partial {
			t.Logf("%s %s, %d a page: %s", sort, order, limit, page.PartialReason)
			got, cursor = nil, ""
			clear(seen)
			continue
		}
		if page.Total != int64(count) || page.HasMore != (page.Cursor != "") || page.HasMore && len(page.Jobs) != limit {
			t.Fatalf("%s %s: %d jobs of %d, limit %d, cursor %q", sort, order, len(page.Jobs), page.Total, limit, page.Cursor)
		}
		for i := range page.Jobs {
			got, seen[page.Jobs[i].ID] = append(got, page.Jobs[i]), true
		}
		cursor, more = page.Cursor, page.HasMore
	}
	return got, len(seen)
}

// The bytes of an answer to a request for jobs by ids are bounded.
func TestJobsByIDsAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	enqueue := func(size int) (quotedID string) {
		var made api.EnqueueResponse
		a := n.send("POST", "/api/v1/enqueue", n.admin, `{"queue":"q","payload":"`+strings.Repeat("x", size-2)+`"}`)
		if err := json.Unmarshal(a.body, &made); err != nil || a.status != 201 {
			t.Fatalf("%d %s %v", a.status, a.body, err)
		}
		return fmt.Sprintf("%q", made.JobID)
	}
	// A job counts as often as it is requested.
	large, small := enqueue(job.DefaultMaxPayload), enqueue(2)
	ids := strings.Repeat(large+",", job.MaxBulkGetBytes/job.DefaultMaxPayload)
	if a := n.send("POST", "/api/v1/jobs/bulk-get", n.admin, `{"job_ids":[`+strings.TrimSuffix(ids, ",")+`]}`); a.status != 200 {
		t.Errorf("at the bound: %d %.300s", a.status, a.body)
	}
	a := n.send("POST", "/api/v1/jobs/bulk-get", n.admin, `{"job_ids":[`+ids+small+`]}`)
	if a.status != 413 || !strings.Contains(string(a.body), string(api.PayloadTooLarge)) || !strings.Contains(string(a.body), "ask for fewer at once") {
		t.Errorf("beyond it: %d %.300s", a.status, a.body)
	}
}
