package view

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
)

// fromList is the set of a list's values. A list is one parameter, a JSON array,
// however long it is.
const fromList = "(SELECT value FROM json_each(?))"

func list[T any](values []T) (string, error) {
	text, err := json.Marshal(values)
	return string(text), err
}

func words(states []job.State) []string {
	all := make([]string, len(states))
	for i, s := range states {
		all[i] = s.Word()
	}
	return all
}

// planQueues finds jobs in the queues of a list, which may be all but one of
// thousands. Two ways lead there, and it takes the one that should read less:
//
//   - every state of every queue is a range of an index, and a page needs no
//     more than a page of each;
//   - or it walks all jobs by number and leaves out those of other queues, of
//     which it passes more the fewer jobs the queues have.
func (s *search) planQueues(ctx context.Context) ([]branch, error) {
	names, err := list(s.Queues)
	if err != nil {
		return nil, err
	}
	ranges, err := s.ranges(ctx, names)
	if err != nil || len(ranges) == 0 {
		return nil, err
	}
	var last int64 // about how many jobs there are
	if err := s.tx.QueryRowContext(ctx, "SELECT coalesce(max(number), 0) FROM hot").Scan(&last); err != nil {
		return nil, err
	}
	page := int64(s.Limit + 1)
	merged := min(int64(len(ranges))*page, s.total)
	walked := page * last / s.total // if the queues' jobs lie evenly among all
	if walked < merged {
		return s.walkQueues(names)
	}
	return s.mergeRanges(ranges)
}

// ranges are the pairs of queue and state in which there are jobs, and counts
// those into the total.
func (s *search) ranges(ctx context.Context, names string) (ranges [][2]string, err error) {
	wanted := words(s.wanted())
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
				s.total += n
				ranges = append(ranges, [2]string{*into[0].(*string), word})
			}
		}
		return nil
	}, "SELECT "+columns+" FROM queue WHERE name IN "+fromList, names)
	return ranges, err
}

// mergeRanges takes a page from each range. It is one statement for any number
// of them, where a UNION has a bound on its parts.
func (s *search) mergeRanges(ranges [][2]string) ([]branch, error) {
	text, err := list(ranges)
	if err != nil {
		return nil, err
	}
	than, order := s.direction()
	from := fmt.Sprintf(`json_each(?) r CROSS JOIN hot h WHERE h.number IN (SELECT x.number FROM hot x
		WHERE x.queue = r.value ->> 0 AND x.state = r.value ->> 1 AND x.number %s ? ORDER BY x.number %s LIMIT %d)`, than, order, s.Limit+1)
	return []branch{{from: from, args: []any{text, s.beyond}, table: "h"}}, nil
}

// walkQueues looks at all jobs. The pluses keep the indexes out, whose order is
// another.
func (s *search) walkQueues(names string) ([]branch, error) {
	walk := branch{from: "hot h WHERE +h.queue IN " + fromList, args: []any{names}, table: "h"}
	if len(s.States) > 0 {
		states, err := list(words(s.States))
		if err != nil {
			return nil, err
		}
		walk.from, walk.args = walk.from+" AND +h.state IN "+fromList, append(walk.args, states)
	}
	return []branch{walk}, nil
}
