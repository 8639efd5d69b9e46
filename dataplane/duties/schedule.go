package duties

import (
	"context"
	"fmt"
	"time"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// stuckSchedules is the delay before the duty tries again to run schedules that are due and could not run,
// because their time zone is not known here or a shard takes no more jobs for now.
const stuckSchedules = time.Second

// maxRunBytes bounds the size of the jobs of one RunSchedules, because one entry creates them all. The next
// RunSchedules creates the remaining jobs.
const maxRunBytes = 8 << 20

// runSchedules runs the schedules that are due and returns the time of the next run.
func runSchedules(ctx context.Context, d *Duties) (int64, error) {
	tried := map[string]int64{} // due times, by id
	for {
		nowNs := d.cfg.NowNs()
		ids, err := d.cfg.Store.Due(state.TimerSchedule, nowNs, job.MaxDutyItems)
		if err != nil {
			return 0, fmt.Errorf("read the timers of schedules: %w", err)
		}
		next := never
		p := planned{nowNs: nowNs}
		for _, id := range ids {
			s, err := d.cfg.Store.Schedule(id)
			if err != nil {
				return 0, fmt.Errorf("read a schedule that is due: %w", err)
			}
			if s == nil || s.Paused || s.NextRunNs > nowNs {
				continue // changed since the timers were read
			}
			if tried[string(s.Id)] == s.NextRunNs {
				next = nowNs + int64(stuckSchedules)
				continue
			}
			if p.full() {
				break
			}
			tried[string(s.Id)] = s.NextRunNs
			if err := p.add(s); err != nil {
				d.cfg.Logger.Error("a schedule cannot run; the leader tries it again", "schedule", s.Name, "error", err)
				next = nowNs + int64(stuckSchedules)
			}
		}
		if len(p.runs) == 0 {
			return d.orNextTimer(state.TimerSchedule, nowNs, next)
		}
		if err := d.cfg.Propose(ctx, &op.RunSchedules{Meta: &op.Meta{Principal: "duty"}, Runs: p.runs}); err != nil {
			return 0, err
		}
	}
}

// planned is the content of one RunSchedules.
type planned struct {
	nowNs int64
	runs  []*op.Run
	jobs  int
	bytes int
}

// full reports whether the op should get no further schedule.
func (p *planned) full() bool { return p.jobs >= job.MaxDutyItems || p.bytes >= maxRunBytes }

// add plans the runs of a schedule that is due.
func (p *planned) add(s *state.Schedule) error {
	cron, err := job.ParseCron(s.Cron)
	if err != nil {
		return fmt.Errorf("cron %q %w", s.Cron, err)
	}
	zone, err := Zone(s.Timezone)
	if err != nil {
		return err
	}
	t := times{cron, zone}
	all := t.due(s, p.nowNs)
	next := t.after(p.nowNs)
	if most := p.room(s.SizeVT()); len(all) > most {
		all, next = all[:most], all[most] // it is due again at once
	}
	p.runs = append(p.runs, &op.Run{Id: s.Id, Version: s.Version, DueNs: s.NextRunNs, RunNs: all, NextRunNs: next})
	p.jobs += len(all)
	p.bytes += len(all) * s.SizeVT()
	return nil
}

// room returns the number of jobs of a size that fit, at least one.
func (p *planned) room(size int) int {
	return max(1, min(job.MaxDutyItems-p.jobs, (maxRunBytes-p.bytes)/size))
}

// times computes the run times of a schedule, in Unix nanoseconds.
type times struct {
	cron job.Cron
	zone *time.Location
}

// after returns the first run time after ns, or 0 if there is none.
func (t times) after(ns int64) int64 {
	next := t.cron.Next(time.Unix(0, ns), t.zone)
	if next.IsZero() {
		return 0
	}
	return next.UnixNano()
}

// between returns the run times from fromNs on and before toNs.
func (t times) between(fromNs, toNs int64) (all []int64) {
	for at := t.after(fromNs - 1); at != 0 && at < toNs; at = t.after(at) {
		all = append(all, at)
	}
	return all
}

// due returns the runs to make for a schedule whose next run was due by now. A run that is at most
// job.MissedAfter late is always made. A run that is more than that late was missed, because no node was awake
// or none could lead: the schedule's policy decides about it.
func (t times) due(s *state.Schedule, nowNs int64) []int64 {
	missedNs := nowNs - int64(job.MissedAfter)
	late := t.between(max(s.NextRunNs, missedNs), nowNs+1)
	if s.NextRunNs >= missedNs {
		return late
	}
	switch s.Missed {
	case state.Missed_MISSED_ONCE:
		return append([]int64{s.NextRunNs}, late...)
	case state.Missed_MISSED_ALL:
		return append(t.last(job.MaxMissedRuns, s.NextRunNs, missedNs), late...)
	}
	return late
}

// last returns the last n run times from fromNs on and before toNs, or all if there are fewer. It searches
// from the end, because there may have been millions since the first of them.
func (t times) last(n int, fromNs, toNs int64) []int64 {
	for span := int64(n) * int64(time.Second); ; span *= 2 {
		start := max(fromNs, toNs-span)
		if all := t.between(start, toNs); len(all) >= n || start == fromNs {
			return all[max(0, len(all)-n):]
		}
	}
}
