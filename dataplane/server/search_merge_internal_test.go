package server

import (
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/host"
	"github.com/corvo/corvo/dataplane/view"
	"github.com/corvo/corvo/tenancy"
)

// A shard whose page was cut short may have the next job, so the merged page ends there and the next one
// continues there.
func TestAMergeEndsWhereAShardWasCutShort(t *testing.T) {
	t.Parallel()
	cells, err := OpenForTest(t, host.Config{}, host.Spec{Shards: 2}, nil).Host.Cells(tenancy.Default)
	if err != nil {
		t.Fatal(err)
	}
	born := func(seconds ...int64) (p view.Page) {
		for _, s := range seconds {
			p.Jobs = append(p.Jobs, api.Job{CreatedAt: api.TimeOf(time.Unix(s, 0))})
			p.SortKeys = append(p.SortKeys, view.SortKey{Value: s})
		}
		p.CursorAfter = func(shown int) string {
			if shown > 0 {
				return "after"
			}
			return ""
		}
		return p
	}
	short := born(1)
	short.HasMore, short.Cursor = true, "rest"
	from, err := parseCursors("", cells)
	if err != nil {
		t.Fatal(err)
	}
	query := view.Query{Order: view.Ascending, Limit: 10}
	page := mergePages(query, from, []view.Page{short, born(3, 4)})
	if len(page.Jobs) != 1 || !page.HasMore {
		t.Fatalf("%d jobs, more: %v; want the first alone", len(page.Jobs), page.HasMore)
	}
	back, err := parseCursors(page.Cursor, cells)
	if err != nil {
		t.Fatal(err)
	}
	if len(back) != 2 || back[0].text != "rest" || back[1].text != "" {
		t.Fatalf("the cursors of the shards are %+v, want the first shard's rest and the start of the second", back)
	}
	if back[0].over || back[1].over {
		t.Errorf("the cursors %+v end a shard that has more", back)
	}
	// Jobs of the same time are ordered by shard, and a finished shard stays finished.
	page = mergePages(query, from, []view.Page{born(5), born(5, 6)})
	if len(page.Jobs) != 3 || page.HasMore || page.Cursor != "" {
		t.Errorf("%d jobs, more: %v, cursor %q", len(page.Jobs), page.HasMore, page.Cursor)
	}
}
