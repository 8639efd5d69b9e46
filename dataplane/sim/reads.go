package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/view"
)

// ViewOutcome counts the events of a history's view.
type ViewOutcome struct {
	Reads   int // lists that were compared with the model
	Old     int // of them, lists that showed an older entry
	Trimmed int // times the feed was trimmed past a running view
	OldFile int // times a view was opened with a file that lacked events trimmed since
}

// watched is a view that follows the first shard's steady store. Between steps the simulation reads, closes
// and opens it, and trims the feed past it.
type watched struct {
	dir    string
	rng    *rand.Rand // its own, so that a history draws the same ops with and without a view
	view   *view.View // nil while it is closed
	sleeps bool       // it is not notified of new events
	cursor uint64     // the next event that it lacked when it was closed

	moments map[string][]int // by the text of all jobs: the entries after which the jobs were so
	read    int              // the entry that the newest list showed
	out     ViewOutcome
}

// note records the jobs as they are after an entry.
func (w *watched) note(sh *shard) {
	var lines []string
	for _, j := range sh.model.jobs {
		lines = append(lines, jobLine(j.id.String(), j.queue, j.state.Word(), int(j.priority), int(j.attempt)))
	}
	text := joined(lines)
	w.moments[text] = append(w.moments[text], len(sh.log))
}

func jobLine(id, queue, state string, priority, attempt int) string {
	return fmt.Sprintf("%s %s %s %d %d", id, queue, state, priority, attempt)
}

func joined(lines []string) string {
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// stepView lets something happen to the view.
func (s *simulation) stepView() error {
	w := s.watched
	switch n := w.rng.IntN(12); {
	case n < 2:
		return s.trimPastView()
	case n < 4:
		if w.view == nil {
			return s.openView()
		}
		w.cursor, _ = w.view.Cursor()
		err := w.view.Close()
		w.view = nil
		return err
	case n < 9 && w.view != nil:
		return s.readView()
	}
	return nil
}

// trimPastView trims the whole feed, including events that the view has not read.
func (s *simulation) trimPastView() error {
	sh := s.shards[0]
	next := sh.steady.store.Head().GetFeedNextSeq()
	if err := sh.commit(&op.TrimFeed{Meta: &op.Meta{Principal: "duty"}, FirstSeq: next}); err != nil {
		return err
	}
	if w := s.watched; w.view != nil {
		if seq, _ := w.view.Cursor(); seq > 0 && seq < next {
			w.out.Trimmed++
		}
	}
	return nil
}

// readView reads all jobs as a plain list does, without waiting for events that the view lacks. The list must
// show the jobs as of one entry, no older than the entry that the last list showed. If the view reported
// before that it lacked nothing, the list must show the newest entry.
func (s *simulation) readView() error {
	w := s.watched
	// Read the lag first, because the view may catch up before the list.
	missing, age := w.view.Lag()
	page, err := s.listJobs()
	if err != nil {
		return err
	}
	if page.HasMore {
		return nil // a page does not show all of them
	}
	if !page.TotalIsEstimate && page.Total != int64(len(page.Jobs)) {
		return fmt.Errorf("a list has %d jobs and says %d", len(page.Jobs), page.Total)
	}
	var lines []string
	for _, j := range page.Jobs {
		lines = append(lines, jobLine(j.ID, j.Queue, j.State, j.Priority, j.Attempt))
	}
	text := joined(lines)
	// Find an entry after which the jobs were as listed, no older than the last list's entry.
	moments, newest := w.moments[text], len(s.shards[0].log)
	if len(moments) == 0 {
		return fmt.Errorf("a list shows jobs as they never were:\n%s", text)
	}
	at := slices.IndexFunc(moments, func(entry int) bool { return entry >= w.read })
	if at < 0 {
		return fmt.Errorf("a list shows the jobs as of entry %d, one before it as of entry %d", moments[len(moments)-1], w.read)
	}
	// The list may be old only if the view said that it lagged.
	w.read = moments[at]
	w.out.Reads++
	if current := moments[len(moments)-1] == newest; !current {
		w.out.Old++
		if missing == 0 || age <= 0 {
			return fmt.Errorf("a list shows entry %d of %d, and the view said before that %d events were missing for %v", w.read, newest, missing, age)
		}
	}
	return nil
}

// listJobs lists all jobs, and repeats the search if a busy machine made it take too long.
func (s *simulation) listJobs() (page view.Page, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), viewTimeout)
	defer cancel()
	if err := s.watched.view.Wait(ctx, 0); err != nil { // wait for the file
		return page, errors.Join(err, s.watched.view.Err())
	}
	for ctx.Err() == nil {
		page, err = s.watched.view.Search(ctx, view.Query{Limit: job.MaxSearchLimit})
		if code := api.CodeOf(err); err != nil && code != api.Overloaded && !errors.Is(err, context.DeadlineExceeded) {
			return page, err
		}
		if err == nil && !page.Partial {
			return page, nil
		}
		time.Sleep(time.Millisecond)
	}
	return page, errors.Join(err, ctx.Err())
}
