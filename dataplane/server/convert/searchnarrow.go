package convert

import (
	"strings"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
)

// narrow is the part of a search that speaks of what few jobs have. What is zero
// asks for nothing.
type narrow struct {
	UniqueKey                 string
	BatchID                   job.ID
	ParentID                  job.ID
	ChainID                   job.ID
	ExpireAfter, ExpireBefore time.Time
}

func fromNarrow(f *Faults, b *api.SearchRequest) narrow {
	if err := job.CheckText(b.UniqueKey, job.MaxUniqueKey); err != nil {
		f.Invalid("unique_key", "%v", err)
	}
	return narrow{
		UniqueKey:    b.UniqueKey,
		BatchID:      searchedID(f, "batch_id", "batch_", b.BatchID),
		ParentID:     searchedID(f, "parent_id", job.IDPrefix, b.ParentID),
		ChainID:      searchedID(f, "chain_id", "chain_", b.ChainID),
		ExpireAfter:  searchedTime(f, "expire_after", b.ExpireAfter),
		ExpireBefore: searchedTime(f, "expire_before", b.ExpireBefore),
	}
}

// searchedID reads an id that starts with prefix; "" is the zero id, which no job,
// batch or chain has.
func searchedID(f *Faults, field, prefix, text string) job.ID {
	if text == "" {
		return job.ID{}
	}
	rest, ok := strings.CutPrefix(text, prefix)
	id, err := job.ParseID(job.IDPrefix + rest)
	if !ok || err != nil || id == (job.ID{}) {
		f.Invalid(field, "%s is not one: it starts with %q and 26 characters follow", Excerpt(text), prefix)
	}
	return id
}

// searchedTime reads an instant, or a date, which is its midnight in UTC.
func searchedTime(f *Faults, field string, text api.Time) time.Time {
	if _, err := time.Parse(time.DateOnly, string(text)); err == nil {
		text += "T00:00:00Z"
	}
	at, asked, err := text.Parse()
	if err != nil {
		f.Invalid(field, "%v", err)
	}
	if asked && at.IsZero() {
		at = at.Add(1) // the zero time asks for nothing, and no job is as old
	}
	return at
}
