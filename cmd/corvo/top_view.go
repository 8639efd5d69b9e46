package main

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/corvo/corvo/api"
)

// topQueues are the columns of the table of queues; a narrow terminal shows the first.
var topQueues = []column[queueLook]{
	{"QUEUE", func(q queueLook) string { return q.Name }},
	{"PENDING", func(q queueLook) string { return count(q.Pending) }},
	{"ACTIVE", func(q queueLook) string { return count(q.Active) }},
	{"IN/S", func(q queueLook) string { return maybe(q.In, rateText) }},
	{"DONE/S", func(q queueLook) string { return maybe(q.Done, rateText) }},
	{"DEAD", func(q queueLook) string { return count(q.Dead) }},
	{"RETRYING", func(q queueLook) string { return count(q.Retrying) }},
	{"HELD", func(q queueLook) string { return count(q.Held) }},
	{"SCHEDULED", func(q queueLook) string { return count(q.Scheduled) }},
	{"STATUS", func(q queueLook) string { return q.Status }},
}

// workerRow is a line of the table of workers: a worker, or a job below its worker.
type workerRow struct {
	worker workerLook
	job    *api.Job
}

// workerRows returns all lines in the order of a look.
func workerRows(l look) (all []workerRow) {
	for _, w := range l.Workers {
		all = append(all, rowsOf(w)...)
	}
	return all
}

func rowsOf(w workerLook) []workerRow {
	all := []workerRow{{worker: w}}
	for i := range w.Jobs {
		all = append(all, workerRow{w, &w.Jobs[i]})
	}
	return all
}

// topWorkers returns the columns of the table of workers at a time.
func topWorkers(now time.Time) []column[workerRow] {
	both := func(head string, worker func(workerLook) string, job func(api.Job) string) column[workerRow] {
		return column[workerRow]{head, func(r workerRow) string {
			if r.job != nil {
				return job(*r.job)
			}
			return worker(r.worker)
		}}
	}
	return []column[workerRow]{
		both("WORKER, JOB", func(w workerLook) string { return cmp.Or(w.ID, "(without a name)") }, func(j api.Job) string { return "  " + j.ID }),
		both("JOBS", func(w workerLook) string { return bounded(count(w.Active), limit(w.Concurrency)) }, func(api.Job) string { return " " }),
		both("SINCE", func(w workerLook) string { return since(now, w.LastHeartbeat) }, func(j api.Job) string { return maybe(j.StartedAt, func(t api.Time) string { return since(now, t) }) }),
		both("HOST, QUEUE", func(w workerLook) string { return w.Hostname }, func(j api.Job) string { return j.Queue }),
		both("ATTEMPT", func(workerLook) string { return " " }, func(j api.Job) string { return fmt.Sprintf("%d of %d", j.Attempt, j.MaxRetries) }),
		both("PROGRESS", func(workerLook) string { return " " }, func(j api.Job) string { return jsonText(j.Progress) }),
	}
}

func rateText(x float64) string { return strconv.FormatFloat(x, 'f', 1, 64) }

// since formats the time since an event in whole seconds, at least 0 because clocks may differ a little.
func since(now time.Time, at api.Time) string {
	t, ok, err := at.Parse()
	if err != nil || !ok {
		return ""
	}
	return max(now.Sub(t), 0).Truncate(time.Second).String()
}

// clusterLine summarises the server in one line.
func clusterLine(l look) string {
	var pending, active, dead int64
	var in, finished float64
	for _, q := range l.Queues {
		pending, active, dead = pending+q.Pending, active+q.Active, dead+q.Dead
		if q.In != nil {
			in, finished = in+*q.In, finished+*q.Done
		}
	}
	text := fmt.Sprintf("%d pending, %d active, %d dead; %s in and %s done a second", pending, active, dead, rateText(in), rateText(finished))
	if c := l.Cluster; c != nil {
		text += fmt.Sprintf("; node %s of %d, leader %s, health %s", c.NodeID, len(c.Nodes), known(c.LeaderID), healthText(*c))
	}
	return text
}

// view is the newest look and its presentation.
type view struct {
	look    look
	failing error // the reason if there is no newer look
	focus   int   // the table that keys act on
	tables  [2]tableView
}

// tableView is the presentation of a table.
type tableView struct {
	sort   int // the column
	turned bool
	top    int // rows above the first visible one
	rows   int // rows at the last drawing
	page   int // visible rows
}

func newView(first look) *view { return &view{look: first} }

// take stores a new look. If the request failed, it keeps the previous look and the error.
func (v *view) take(l looked) {
	if v.failing = l.err; l.err == nil {
		v.look = l.look
	}
}

// cause removes the request from an error of a request.
func cause(err error) error {
	var request *url.Error
	if errors.As(err, &request) {
		return request.Err
	}
	return err
}

// press performs a key's action and reports whether the key quits.
func (v *view) press(k key) (quit bool) {
	t := &v.tables[v.focus]
	columns := len(topQueues)
	if v.focus == 1 {
		columns = len(topWorkers(time.Time{}))
	}
	switch k {
	case keyQuit:
		return true
	case keyTab:
		v.focus = 1 - v.focus
	case keyTurn:
		t.turned = !t.turned
	case keyLeft:
		t.sort = max(t.sort-1, 0)
	case keyRight:
		t.sort = min(t.sort+1, columns-1)
	case keyUp:
		t.top--
	case keyDown:
		t.top++
	case keyPageUp:
		t.top -= max(t.page, 1)
	case keyPageDown:
		t.top += max(t.page, 1)
	}
	t.top = max(min(t.top, t.rows-t.page), 0)
	return false
}

// line is a line of the screen.
type line struct{ style, text string }

// render draws the view into at most height lines, each at most width columns wide.
func (v *view) render(width, height int) (lines []line) {
	// Leave the last column free, because a terminal may wrap after filling it.
	width = max(width-1, 1)
	title := "corvo top, " + v.look.At.UTC().Format(time.TimeOnly) + " UTC"
	if v.failing != nil {
		title = "NO ANSWER since " + v.look.At.UTC().Format(time.TimeOnly) + " UTC: " + oneLine(cause(v.failing))
	}
	lines = append(lines, line{bold, title}, line{"", clusterLine(v.look)})
	queues, workers := v.cells()
	body := height - len(lines) - 1 // minus the line of keys at the bottom
	if body >= 6 {
		// Each table takes the lines that the other leaves, or half if both need more.
		upper := min(len(queues), max((body-1)/2, body-1-len(workers)))
		lines = append(lines, v.table(0, queues, width, upper-1)...)
		lines = append(lines, line{})
		lines = append(lines, v.table(1, workers, width, body-upper-2)...)
	} else if body >= 2 {
		lines = append(lines, v.table(v.focus, [][][]string{queues, workers}[v.focus], width, body-1)...)
	}
	for len(lines) < height-1 {
		lines = append(lines, line{})
	}
	if body >= 0 {
		lines = append(lines, line{reverse, "q quit  tab table  up/down scroll  left/right sort  r turn round"})
	}
	lines = lines[:min(len(lines), height)]
	for i := range lines {
		lines[i].text = cut(plain(lines[i].text), width)
	}
	return lines
}

// cells returns the sorted rows of the two tables, each below its row of heads.
func (v *view) cells() (queues, workers [][]string) {
	var each, jobs [][][]string
	for _, q := range v.look.Queues {
		each = append(each, cellsOf(topQueues, q))
	}
	columns := topWorkers(v.look.At)
	for _, w := range v.look.Workers {
		jobs = append(jobs, cellsOf(columns, rowsOf(w)...))
	}
	return v.tables[0].sorted(headsOf(topQueues), each), v.tables[1].sorted(headsOf(columns), jobs)
}

func headsOf[A any](columns []column[A]) (heads []string) {
	for _, c := range columns {
		heads = append(heads, c.head)
	}
	return heads
}

func cellsOf[A any](columns []column[A], rows ...A) (all [][]string) {
	for _, a := range rows {
		var cells []string
		for _, c := range columns {
			cells = append(cells, plain(known(c.cell(a))))
		}
		all = append(all, cells)
	}
	return all
}

// sorted sorts groups by their first row and keeps the rows of a group together.
func (t *tableView) sorted(heads []string, groups [][][]string) [][]string {
	mark := "^"
	if t.turned {
		mark = "v"
	}
	slices.SortStableFunc(groups, func(a, b [][]string) int {
		if t.turned {
			a, b = b, a
		}
		return compareCells(a[0][t.sort], b[0][t.sort])
	})
	heads[t.sort] += mark
	return append([][]string{heads}, slices.Concat(groups...)...)
}

// compareCells compares numbers as numbers and durations as durations. An unknown value sorts before all
// others.
func compareCells(a, b string) int {
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	if errX == nil && errY == nil {
		return cmp.Compare(x, y)
	}
	long, errX := time.ParseDuration(a)
	than, errY := time.ParseDuration(b)
	if errX == nil && errY == nil {
		return cmp.Compare(long, than)
	}
	if a == known("") || b == known("") {
		return cmp.Compare(strings.TrimLeft(a, "-"), strings.TrimLeft(b, "-"))
	}
	return cmp.Compare(a, b)
}

// table draws a table's heads and at most most rows.
func (v *view) table(which int, cells [][]string, width, most int) (lines []line) {
	t := &v.tables[which]
	t.rows, t.page = len(cells)-1, max(most, 0)
	t.top = max(min(t.top, t.rows-t.page), 0)
	shown := append([][]string{cells[0]}, cells[1+t.top:min(1+t.top+t.page, len(cells))]...)
	style := bold
	if which == v.focus {
		style = reverse
	}
	for i, text := range aligned(shown, width) {
		if i > 0 {
			style = ""
		}
		lines = append(lines, line{style, text})
	}
	return lines
}

// aligned aligns the cells of rows in columns. If the width is too small, it omits whole columns from the
// right, but never the first.
func aligned(rows [][]string, width int) []string {
	lines := make([]string, len(rows))
	used := 0
	for c := range rows[0] {
		wide := 0
		for _, cells := range rows {
			wide = max(wide, columnsOf(cells[c]))
		}
		gap := min(2*c, 2)
		if c > 0 && used+gap+wide > width {
			break
		}
		for i, cells := range rows {
			lines[i] += strings.Repeat(" ", used+gap-columnsOf(lines[i])) + cells[c]
		}
		used += gap + wide
	}
	return lines
}

// columnsOf returns the most columns of a terminal that a text may take. It counts two for each letter from
// Hangul on, which is too many for some. The only consequence is a gap in the table.
func columnsOf(text string) (n int) {
	for _, r := range text {
		n += columnsOfRune(r)
	}
	return n
}

func columnsOfRune(r rune) int {
	if r >= '\u1100' {
		return 2
	}
	return 1
}

// cut returns the longest beginning of a text that fits.
func cut(text string, width int) string {
	n := 0
	for i, r := range text {
		if n += columnsOfRune(r); n > width {
			return text[:i]
		}
	}
	return text
}
