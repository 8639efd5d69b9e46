package from03

import (
	"cmp"
	"slices"
)

// maxProblems bounds the jobs that a report names; the report only counts the others.
const maxProblems = 1000

// Report lists the findings and actions of a run.
type Report struct {
	Jobs     Jobs      `json:"jobs"`
	Queues   []Queue   `json:"queues"`   // the counts of both sides after the copy, by name
	Settings []Setting `json:"settings"` // in the order in which they were copied
	Problems []Problem `json:"problems"` // jobs that were not copied, and those copied in part
}

// Jobs counts the original's unfinished jobs by their outcome.
type Jobs struct {
	Found     int `json:"found"`
	Copied    int `json:"copied"`
	Earlier   int `json:"copied_earlier"` // by a run before this one
	Expired   int `json:"expired"`        // their time was over, so the original would end them, too
	Gone      int `json:"gone"`           // ended on the original while the run went on
	Refused   int `json:"refused"`        // by this server; each is a problem while there is room
	Shortened int `json:"copied_in_part"` // without parts that this server does not have; each is a problem while there is room
	Finished  int `json:"finished"`       // completed and cancelled ones, which stay on the original
}

// Queue compares a queue's unfinished jobs.
type Queue struct {
	Name   string `json:"name"`
	There  int    `json:"there"`  // unfinished or dead on the original
	Here   int    `json:"here"`   // copied from it, in any state now
	Differ bool   `json:"differ"` // the two are not equal
}

// The outcomes of settings.
const (
	Copied  = "copied"
	Exists  = "exists"  // this server has one of that name already
	Left    = "left"    // not copied; the reason says why
	Refused = "refused" // by this server
)

// Setting is the outcome of one declared setting.
type Setting struct {
	Kind    string `json:"kind"` // queue, provider, budget, schedule, webhook or key
	Name    string `json:"name"`
	Outcome string `json:"outcome"`
	Reason  string `json:"reason,omitempty"`
}

// Problem is a job that was not copied, or only in part.
type Problem struct {
	JobID  string `json:"job_id"` // its id on the original
	Queue  string `json:"queue"`
	Reason string `json:"reason"`
}

// Complete reports whether the target refused no job and no setting, and no queue's counts differ. Jobs that
// were copied in part count as copied.
func (r *Report) Complete() bool {
	return r.Jobs.Refused == 0 &&
		!slices.ContainsFunc(r.Queues, func(q Queue) bool { return q.Differ }) &&
		!slices.ContainsFunc(r.Settings, func(s Setting) bool { return s.Outcome == Refused })
}

// problem adds a job to the report, as long as there is room.
func (r *Report) problem(j job, reason string) {
	if len(r.Problems) < maxProblems {
		r.Problems = append(r.Problems, Problem{JobID: j.ID, Queue: j.Queue, Reason: reason})
	}
}

// setting adds the outcome of a setting. err is this server's refusal, or nil.
func (r *Report) setting(kind, name string, err error) {
	s := Setting{Kind: kind, Name: name, Outcome: Copied}
	if err != nil {
		s.Outcome, s.Reason = Refused, err.Error()
	}
	r.Settings = append(r.Settings, s)
}

// leave adds a setting that was not copied, with the reason.
func (r *Report) leave(kind, name, outcome, reason string) {
	r.Settings = append(r.Settings, Setting{Kind: kind, Name: name, Outcome: outcome, Reason: reason})
}

func (r *Report) sortQueues() {
	slices.SortFunc(r.Queues, func(a, b Queue) int { return cmp.Compare(a.Name, b.Name) })
}
