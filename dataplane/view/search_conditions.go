package view

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/view/jq"
)

// conditions are the parts of a filter that a search checks against a job's rows, hot h and document d2. A
// job must meet all of them. Names and values that a client sent are arguments, never part of the SQL text.
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

// where returns all conditions as SQL. It puts the conditions on the document last, because a document can be
// long.
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

// joins returns the joins with the tables that the conditions read and that the branch has not joined yet.
// hot asks for the table hot even if no condition reads it.
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

// conditions collects the conditions that no index answers.
func (s *search) conditions() (err error) {
	if s.queueList, err = list(s.Queues); err != nil {
		return err
	}
	if s.stateList, err = list(stateWords(s.States)); err != nil {
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
			c.hot(fmt.Sprintf("h.%s_ns > ?", by.column), api.UnixNs(by.after))
		}
		if !by.before.IsZero() {
			c.hot(fmt.Sprintf("h.%s_ns < ?", by.column), api.UnixNs(by.before))
		}
	}
	// A job's errors are the rows of job_error in the range of ids that begins with the job's number.
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
	if err := s.tagConditions(c); err != nil {
		return err
	}
	if s.PayloadContains != "" {
		c.document("instr(d2.payload, ?) > 0", s.PayloadContains)
	}
	if s.PayloadJQ != "" {
		e, err := jq.Parse(s.PayloadJQ)
		if err != nil {
			return err // not expected, because normalize refuses such a filter
		}
		text, args := e.Where("d2.payload")
		c.document("("+text+")", args...)
	}
	return nil
}

// tagConditions adds a condition for each tag. Searching the text for the tag's name and value is cheap;
// parsing the JSON to check that the value belongs to the name is not, so SQLite parses only the documents
// that contain the text.
func (s *search) tagConditions(c *conditions) error {
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

// timeFilter is a filter's range for one of a job's times.
type timeFilter struct {
	column        string
	after, before time.Time
}

func (q *Query) times() []timeFilter {
	return []timeFilter{
		{"created", q.CreatedAfter, q.CreatedBefore},
		{"scheduled", q.ScheduledAfter, q.ScheduledBefore},
		{"started", q.StartedAfter, q.StartedBefore},
		{"completed", q.CompletedAfter, q.CompletedBefore},
	}
}

// queuesAndStates adds the conditions on queues and states. The unary pluses keep SQLite from using the
// indexes on these columns, because those indexes yield another order.
func (s *search) queuesAndStates(c *conditions) {
	if s.Queue != "" {
		c.hot("+h.queue = ?", s.Queue)
	}
	if s.Queues != nil {
		c.hot("+h.queue IN "+fromList, s.queueList)
	}
	if len(s.States) > 0 {
		c.hot("+h.state IN "+fromList, s.stateList)
	}
}

// idPrefix adds the condition on the start of the id.
func (s *search) idPrefix(c *conditions) {
	if s.IDPrefix != "" {
		c.document("+d2.id >= ? AND +d2.id < ?", s.prefixArgs()...)
	}
}

// indexedProperties adds the condition on a column of extra.
func (s *search) indexedProperties(c *conditions) {
	if n := s.indexFilter(); n.index != "" {
		c.hot("EXISTS (SELECT 1 FROM extra x WHERE x.number = h.number AND "+n.where+")", n.args...)
	}
}
