package convert

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
)

func TestFromNarrow(t *testing.T) {
	t.Parallel()
	id := job.ID{0: 1, 15: 2}
	text := strings.TrimPrefix(id.String(), job.IDPrefix)
	day := time.Date(2026, 2, 11, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		b     api.SearchRequest
		want  narrow
		wrong string
	}{
		{api.SearchRequest{}, narrow{}, ""},
		{api.SearchRequest{UniqueKey: strings.Repeat("k", job.MaxUniqueKey)}, narrow{UniqueKey: strings.Repeat("k", job.MaxUniqueKey)}, ""},
		{api.SearchRequest{UniqueKey: strings.Repeat("k", job.MaxUniqueKey+1)}, narrow{}, "unique_key has 513 bytes"},
		{api.SearchRequest{UniqueKey: "\xff"}, narrow{}, "unique_key is not valid UTF-8"},
		{api.SearchRequest{BatchID: "batch_" + text, ParentID: "job_" + strings.ToLower(text), ChainID: "chain_" + text},
			narrow{BatchID: id, ParentID: id, ChainID: id}, ""},
		{api.SearchRequest{BatchID: "job_" + text}, narrow{}, `batch_id "job_04000000000000000000000008" is not one: it starts with "batch_"`},
		{api.SearchRequest{BatchID: text}, narrow{}, "batch_id"},
		{api.SearchRequest{BatchID: "batch_" + text[1:]}, narrow{}, "batch_id"},
		{api.SearchRequest{BatchID: "batch_" + strings.Repeat("0", 26)}, narrow{}, "batch_id"}, // would ask for nothing
		{api.SearchRequest{ParentID: "batch_" + text}, narrow{}, "parent_id"},
		{api.SearchRequest{ChainID: "7"}, narrow{}, "chain_id"},
		{api.SearchRequest{ExpireAfter: "2026-02-11", ExpireBefore: "2026-02-11T01:00:00+01:00"}, narrow{ExpireAfter: day, ExpireBefore: day}, ""},
		{api.SearchRequest{ExpireBefore: "0001-01-01"}, narrow{ExpireBefore: time.Time{}.Add(1)}, ""}, // nothing, and not everything
		{api.SearchRequest{ExpireAfter: "tomorrow"}, narrow{}, "expire_after"},
		{api.SearchRequest{ExpireBefore: "2026-02-30"}, narrow{}, "expire_before"},
	} {
		var f Faults
		got := fromNarrow(&f, &c.b)
		switch err := f.Err(); {
		case c.wrong != "":
			if api.CodeOf(err) != api.ValidationError || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%+v: %v, want %s", c.b, err, c.wrong)
			}
		case err != nil || !reflect.DeepEqual(got, c.want):
			t.Errorf("%+v is %+v, %v; want %+v", c.b, got, err, c.want)
		}
	}
}
