package view

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/corvo/corvo/dataplane/view/jq"
)

// conditions are parts of a filter that are held against a job's rows, hot h and
// document d: all have to hold. Names and values are arguments, never text.
type conditions struct {
	onHot, onDocument     []string
	hotArgs, documentArgs []any
}

func (c *conditions) none() bool { return len(c.onHot) == 0 && len(c.onDocument) == 0 }

func (c *conditions) hot(text string, args ...any) {
	c.onHot, c.hotArgs = append(c.onHot, text), append(c.hotArgs, args...)
}

func (c *conditions) document(text string, args ...any) {
	c.onDocument, c.documentArgs = append(c.onDocument, text), append(c.documentArgs, args...)
}

// where is all of them; those on the document last, as it may be long.
func (c *conditions) where() (text string, args []any) {
	var b strings.Builder
	for _, one := range c.onHot {
		b.WriteString(" AND " + one)
	}
	for _, one := range c.onDocument {
		b.WriteString(" AND " + one)
	}
	return b.String(), append(c.hotArgs[:len(c.hotArgs):len(c.hotArgs)], c.documentArgs...)
}

// joins are the tables they speak of, behind those of a branch.
func (c *conditions) joins(b *branch, hot bool) string {
	text := ""
	if (hot || len(c.onHot) > 0) && !b.hot {
		text += " CROSS JOIN hot h ON h.number = " + b.number()
	}
	if len(c.onDocument) > 0 && !b.d2 {
		text += " CROSS JOIN document d2 ON d2.number = " + b.number()
	}
	return text
}

// conditions are those that no index is for.
func (s *search) conditions() (err error) {
	if s.names, err = list(s.Queues); err != nil {
		return err
	}
	if s.words, err = list(words(s.States)); err != nil {
		return err
	}
	c := &s.rest
	if s.Priority != nil {
		c.hot("h.priority = ?", *s.Priority)
	}
	if s.AttemptMin != nil {
		c.hot("h.attempt >= ?", *s.AttemptMin)
	}
	if s.AttemptMax != nil {
		c.hot("h.attempt <= ?", *s.AttemptMax)
	}
	for _, by := range s.times() {
		if !by.after.IsZero() {
			c.hot(fmt.Sprintf("h.%s_ns > ?", by.column), unixNs(by.after))
		}
		if !by.before.IsZero() {
			c.hot(fmt.Sprintf("h.%s_ns < ?", by.column), unixNs(by.before))
		}
	}
	// Of the errors of a job, by their ids.
	errors := fmt.Sprintf("FROM job_error o WHERE o.id >= h.number << %[1]d AND o.id < (h.number + 1) << %[1]d", errorShift)
	if s.WorkerID != "" {
		c.hot("(h.worker_id = ? OR h.errors > 0 AND EXISTS (SELECT 1 "+errors+" AND o.worker_id = ?))", s.WorkerID, s.WorkerID)
	}
	if s.HasErrors != nil {
		if *s.HasErrors {
			c.hot("h.errors > 0")
		} else {
			c.hot("h.errors = 0")
		}
	}
	if s.ErrorContains != "" {
		c.hot("h.errors > 0 AND EXISTS (SELECT 1 "+errors+" AND instr(o.error, ?) > 0)", s.ErrorContains)
	}
	if err := s.tagged(c); err != nil {
		return err
	}
	if s.PayloadContains != "" {
		c.document("instr(d2.payload, ?) > 0", s.PayloadContains)
	}
	if s.PayloadJQ != "" {
		e, err := jq.Parse(s.PayloadJQ)
		if err != nil {
			return err // normalize has refused it
		}
		text, args := e.Where("d2.payload")
		c.document("("+text+")", args...)
	}
	return nil
}

// tagged wants all tags. That the text has one's name and value is cheap to see, that
// they belong together is not, so it is asked only then.
func (s *search) tagged(c *conditions) error {
	for _, name := range slices.Sorted(maps.Keys(s.Tags)) {
		value := s.Tags[name]
		quoted, err := json.Marshal(map[string]string{name: value}) // as pairsText writes it
		if err != nil {
			return err
		}
		c.document("instr(d2.tags, ?) > 0 AND EXISTS (SELECT 1 FROM json_each(d2.tags) t WHERE t.key = ? AND t.value = ?)",
			string(quoted[1:len(quoted)-1]), name, value)
	}
	return nil
}

// timeRange is what a filter says of one of a job's times.
type timeRange struct {
	column        string
	after, before time.Time
}

func (q *Query) times() []timeRange {
	return []timeRange{
		{"created", q.CreatedAfter, q.CreatedBefore},
		{"scheduled", q.ScheduledAfter, q.ScheduledBefore},
		{"started", q.StartedAfter, q.StartedBefore},
		{"completed", q.CompletedAfter, q.CompletedBefore},
	}
}

// inLists is of the queues and states. The pluses keep the indexes out, whose order is
// another.
func (s *search) inLists(c *conditions) {
	if s.Queue != "" {
		c.hot("+h.queue = ?", s.Queue)
	}
	if s.Queues != nil {
		c.hot("+h.queue IN "+fromList, s.names)
	}
	if len(s.States) > 0 {
		c.hot("+h.state IN "+fromList, s.words)
	}
}

// prefixed is of the start of ids.
func (s *search) prefixed(c *conditions) {
	if s.IDPrefix != "" {
		c.document("+d2.id >= ? AND +d2.id < ?", s.prefixArgs()...)
	}
}

// narrowed is of what few jobs have.
func (s *search) narrowed(c *conditions) {
	if n := s.narrowing(); n.index != "" {
		c.hot("EXISTS (SELECT 1 FROM extra x WHERE x.number = h.number AND "+n.where+")", n.args...)
	}
}
