package view

import (
	"fmt"
	"strings"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
)

// indexFilter is the part of a filter that concerns properties few jobs have.
type indexFilter struct {
	index  string // of extra: the index to search; "" if the filter has no such part
	sorts  bool   // the index yields jobs in another order than by number
	column string // of the index
	where  string // conditions on extra x
	args   []any
}

// indexFilter returns the query's conditions on extra. It chooses one column whose index is read, as a
// rule the one that finds the fewest jobs. A plus before the other columns keeps SQLite from using their
// indexes.
func (q *Query) indexFilter() (n indexFilter) {
	var conditions []string
	add := func(index, column, condition string, value any) {
		if n.index == "" {
			n.index, n.column = index, column
		}
		if column = "x." + column; n.index != index {
			column = "+" + column
		}
		conditions, n.args = append(conditions, column+condition), append(n.args, value)
	}
	if q.UniqueKey != "" {
		add("extra_by_unique_key", "unique_key", " = ?", q.UniqueKey)
	}
	for _, by := range [...]struct {
		index, column, prefix string
		id                    job.ID
	}{
		{"extra_by_parent", "parent_id", job.IDPrefix, q.ParentID},
		{"extra_by_chain", "chain_id", chainPrefix, q.ChainID},
		{"extra_by_batch", "batch_id", batchPrefix, q.BatchID},
	} {
		if by.id != (job.ID{}) {
			add(by.index, by.column, " = ?", idWord(by.prefix, by.id))
		}
	}
	n.sorts = n.index == ""
	if !q.ExpireAfter.IsZero() {
		add("extra_by_expiry", "expire_ns", " > ?", api.UnixNs(q.ExpireAfter))
	}
	if !q.ExpireBefore.IsZero() {
		add("extra_by_expiry", "expire_ns", " < ?", api.UnixNs(q.ExpireBefore))
	}
	n.where = strings.Join(conditions, " AND ")
	return n
}

// condition returns the condition that a row of the index must meet.
func (n *indexFilter) condition() string {
	return fmt.Sprintf("x.%s IS NOT NULL AND %s", n.column, n.where)
}
