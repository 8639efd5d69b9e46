package view

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/corvo/corvo/dataplane/job"
)

// branch is a part of the candidates that is small, or that an index yields in the order of their numbers.
type branch struct {
	tables string // to select from
	where  string
	args   []any  // of tables and where
	key    string // the column that has the number
	shift  int    // the number is the key shifted right by so many bits; the bits below hold something else
	hot    bool   // the tables include hot h
	d2     bool   // the tables include document d2
	ranges string // pairs of queue and state as JSON, each a range of the index; see planQueues
	every  bool   // all jobs
}

// plan decides where to find the jobs and which parts of the filter each candidate must still be checked
// against. If the counters give the number of jobs, plan sets countKnown.
func (s *search) plan(ctx context.Context, match string) error {
	if s.Queues != nil && len(s.Queues) == 0 {
		return nil
	}
	if err := s.conditions(); err != nil {
		return err
	}
	lists, walks, err := s.lists(ctx)
	if err != nil || s.listed == 0 {
		return err
	}
	// Find out whether an index on rare properties, or the index on ids, yields few jobs.
	few := s.listed <= int64(s.limits.few)
	n := s.indexFilter()
	var indexed, prefix bool
	if n.index != "" {
		if indexed, err = s.isSmall(ctx, "extra x INDEXED BY "+n.index, n.condition(), n.args); err != nil {
			return err
		}
	}
	if s.IDPrefix != "" && !indexed {
		if prefix, err = s.isSmall(ctx, "document d INDEXED BY document_by_id", idRange, s.prefixArgs()); err != nil {
			return err
		}
	}
	// Choose the branches, and the conditions that their jobs must still be checked against.
	s.branches = lists
	switch {
	case match != "":
		s.branches = append([]branch{{tables: "words", where: "words MATCH ?", args: []any{match}, key: "words.rowid"}}, branchByID(s.Words, match)...)
		s.addConditions(s.queuesAndStates, s.idPrefix, s.indexedProperties)
	case indexed, n.index != "" && !prefix && !few:
		b := branch{tables: "extra x INDEXED BY " + n.index, where: n.condition(), args: n.args, key: "x.number"}
		if !indexed && n.sorts {
			b.tables = "extra x NOT INDEXED"
		}
		s.branches = []branch{b}
		s.addConditions(s.queuesAndStates, s.idPrefix)
	case prefix:
		s.branches = []branch{{tables: "document d INDEXED BY document_by_id", where: idRange, args: s.prefixArgs(), key: "d.number"}}
		s.addConditions(s.queuesAndStates, s.indexedProperties)
	case !few && s.onlyWithErrors() && s.errorCount(ctx) < s.listed:
		// The job's first error stands for the job.
		s.branches = []branch{{tables: "job_error e", where: fmt.Sprintf("e.id & %d = 0", 1<<errorShift-1), key: "e.id", shift: errorShift}}
		s.addConditions(s.queuesAndStates, s.idPrefix, s.indexedProperties)
	default:
		s.addConditions(s.idPrefix, s.indexedProperties)
		s.countKnown = s.rest.none() && s.Below == 0
		if walks {
			s.addConditions(s.queuesAndStates)
		}
	}
	if match == "" {
		s.preferWalk(ctx)
	}
	return nil
}

// addConditions adds conditions that each candidate must be checked against.
func (s *search) addConditions(parts ...func(*conditions)) {
	for _, add := range parts {
		add(&s.rest)
	}
}

// isSmall reports whether a range of an index has at most limits.few rows.
func (s *search) isSmall(ctx context.Context, tables, where string, args []any) (bool, error) {
	var n int
	err := s.tx.QueryRowContext(ctx, fmt.Sprintf("SELECT count(*) FROM (SELECT 1 FROM %s WHERE %s LIMIT %d)", tables, where, s.limits.few+1), args...).Scan(&n)
	return n <= s.limits.few, err
}

// No character of an id sorts after "~".
const idRange = "d.id >= ? AND d.id < ?"

func (s *search) prefixArgs() []any { return []any{s.IDPrefix, s.IDPrefix + "~"} }

// onlyWithErrors reports whether only jobs with errors can fit.
func (s *search) onlyWithErrors() bool {
	return s.ErrorContains != "" || s.HasErrors != nil && *s.HasErrors
}

// errorCount returns roughly how many errors there are.
func (s *search) errorCount(ctx context.Context) (n int64) {
	if err := s.tx.QueryRowContext(ctx, "SELECT coalesce(sum(failed_total), 0) FROM queue").Scan(&n); err != nil {
		return maxNumber // the search will meet the fault, too, and report it
	}
	return n
}

// lists returns branches with the jobs in the queues and states of the query, and counts those jobs. If walks
// is true, the branch yields all jobs, and each must still be checked for its queue and state.
func (s *search) lists(ctx context.Context) (branches []branch, walks bool, err error) {
	if s.Queues != nil {
		return s.planQueues(ctx)
	}
	counts, err := s.counts(ctx)
	if err != nil {
		return nil, false, err
	}
	wanted := s.wanted()
	for _, state := range wanted {
		s.listed += counts[state]
	}
	if s.Queue == "" && len(s.States) == 0 {
		return []branch{everyJob}, false, nil
	}
	for _, state := range wanted {
		if counts[state] == 0 {
			continue
		}
		more, err := s.planState(ctx, state)
		if err != nil {
			return nil, false, err
		}
		branches = append(branches, more...)
	}
	return branches, false, nil
}

// everyJob walks all jobs. everyDocument walks their documents, because each job has one.
var (
	everyJob      = branch{tables: "hot h NOT INDEXED", where: "1", key: "h.number", hot: true, every: true}
	everyDocument = branch{tables: "document d2 NOT INDEXED", where: "1", key: "d2.number", d2: true}
)

// preferWalk replaces many lists by a walk of all jobs, if candidates must be checked or sorted and the walk
// passes fewer other jobs per job of the lists than there are lists.
func (s *search) preferWalk(ctx context.Context) {
	if s.rest.none() && s.Sort == SortCreated || len(s.branches) < 2 {
		return
	}
	if last, err := s.last(ctx); err == nil && last/s.listed < int64(len(s.branches)) {
		s.branches = []branch{everyJob}
		s.addConditions(s.queuesAndStates)
	}
}

// last returns roughly how many jobs there are.
func (s *search) last(ctx context.Context) (n int64, err error) {
	err = s.tx.QueryRowContext(ctx, "SELECT coalesce((SELECT max(number) FROM hot) - (SELECT min(number) FROM hot), 0) + 1").Scan(&n)
	return n, err
}

// wanted returns the states of the query, or every state if the query names none.
func (s *search) wanted() []job.State {
	if len(s.States) > 0 {
		return s.States
	}
	var every []job.State
	for state := job.State_STATE_UNSPECIFIED + 1; state < job.States; state++ {
		every = append(every, state)
	}
	return every
}

// planState returns branches with the jobs of one state, in one queue or in all.
func (s *search) planState(ctx context.Context, state job.State) ([]branch, error) {
	inQueue := func(name string) branch {
		return branch{tables: "hot h", where: "h.queue = ? AND h.state = ?", args: []any{name, state.Word()}, key: "h.number", hot: true}
	}
	everywhere := branch{tables: "hot h", where: "h.state = ?", args: []any{state.Word()}, key: "h.number", hot: true}
	if s.Queue != "" {
		return []branch{inQueue(s.Queue)}, nil
	}
	if rare(state) {
		everywhere.where += " AND " + rareStates
		return []branch{everywhere}, nil
	}
	var branches []branch
	err := each(ctx, s.tx, func(rows *sql.Rows) error {
		var name string
		err := rows.Scan(&name)
		branches = append(branches, inQueue(name))
		return err
	}, fmt.Sprintf("SELECT name FROM queue WHERE %s > 0 LIMIT %d", state.Word(), maxQueueBranches+1))
	if len(branches) > maxQueueBranches {
		return []branch{everywhere}, err
	}
	return branches, err
}

// counts returns the number of jobs in each state, in the query's queue or in all.
func (s *search) counts(ctx context.Context) (counts [job.States]int64, err error) {
	var sums []string
	var into []any
	for state := job.State_STATE_UNSPECIFIED + 1; state < job.States; state++ {
		sums = append(sums, "coalesce(sum("+state.Word()+"), 0)")
		into = append(into, &counts[state])
	}
	query, args := "SELECT "+strings.Join(sums, ", ")+" FROM queue", []any{}
	if s.Queue != "" {
		query, args = query+" WHERE name = ?", append(args, s.Queue)
	}
	return counts, s.tx.QueryRowContext(ctx, query, args...).Scan(into...)
}

// planQueues finds jobs in the queues of a list, which may name all but one of thousands. It chooses the
// cheaper of two ways:
//
// It can merge the index ranges of every state of every queue. A page needs at most a page of jobs from each.
//
// Or it can walk all jobs by number and leave out the jobs of other queues. The fewer jobs the queues have,
// the more other jobs the walk passes.
func (s *search) planQueues(ctx context.Context) (branches []branch, walks bool, err error) {
	ranges, err := s.ranges(ctx, s.queueList)
	if err != nil || len(ranges) == 0 {
		return nil, false, err
	}
	last, err := s.last(ctx)
	if err != nil {
		return nil, false, err
	}
	page := int64(s.Limit + 1)
	if !s.rest.none() || s.Sort != SortCreated {
		page = maxChunk
	}
	merged := min(int64(len(ranges))*page, s.listed)
	walked := page * last / s.listed // if the queues' jobs are spread evenly among all
	if walked < merged {
		return []branch{everyJob}, true, nil
	}
	text, err := list(ranges)
	return []branch{{tables: "json_each(?) r CROSS JOIN hot h", where: "h.queue = r.value ->> 0 AND h.state = r.value ->> 1",
		args: []any{text}, key: "h.number", hot: true, ranges: text}}, false, err
}

// ranges returns the pairs of queue and state that have jobs, and adds up those jobs.
func (s *search) ranges(ctx context.Context, names string) (ranges [][2]string, err error) {
	wanted := stateWords(s.wanted())
	columns, into := "name", []any{new(string)}
	for _, word := range wanted {
		columns, into = columns+", "+word, append(into, new(int64))
	}
	err = each(ctx, s.tx, func(rows *sql.Rows) error {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		for i, word := range wanted {
			if n := *into[i+1].(*int64); n > 0 {
				s.listed += n
				ranges = append(ranges, [2]string{*into[0].(*string), word})
			}
		}
		return nil
	}, "SELECT "+columns+" FROM queue WHERE name IN "+fromList, names)
	return ranges, err
}

// number returns the SQL expression of a branch's job number.
func (b *branch) number() string {
	if b.shift == 0 {
		return b.key
	}
	return fmt.Sprintf("(%s >> %d)", b.key, b.shift)
}

func (b *branch) between(lo, hi int64) []any {
	return slices.Concat(b.args, []any{lo << b.shift, hi << b.shift})
}
