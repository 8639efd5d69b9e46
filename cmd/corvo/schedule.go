package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

func newSchedules() *cobra.Command {
	r := &remote{}
	cmd := group(&cobra.Command{Use: "schedules", Short: "Manage schedules, which create jobs at set times", Long: "Manage schedules, which create jobs at set times. SCHEDULE is an id or a name."})
	r.bind(cmd)
	cmd.AddCommand(
		&cobra.Command{
			Use: "list", Short: "List schedules by name", Args: cobra.NoArgs,
			RunE: run(r, func(cmd *cobra.Command, c *client.Client, _ []string) ([]api.Schedule, error) {
				return c.Schedules(cmd.Context(), client.Read{})
			}, showSchedules),
		},
		newScheduleCreate(r),
		onSchedule(r, "get", "Show a schedule", func(ctx context.Context, c *client.Client, id string) (api.Schedule, error) {
			return c.Schedule(ctx, id, client.Read{})
		}, showSchedule),
		onSchedule(r, "delete", "Delete a schedule; its jobs stay", func(ctx context.Context, c *client.Client, id string) (api.Status, error) {
			return done("deleted"), c.DeleteSchedule(ctx, id, 0)
		}, showStatus),
		onSchedule(r, "pause", "Pause a schedule, so that it creates no jobs", func(ctx context.Context, c *client.Client, id string) (api.Status, error) {
			return done("paused"), c.PauseSchedule(ctx, id)
		}, showStatus),
		onSchedule(r, "resume", "Resume a schedule; missed runs are skipped", func(ctx context.Context, c *client.Client, id string) (api.Status, error) {
			return done("resumed"), c.ResumeSchedule(ctx, id)
		}, showStatus),
		onSchedule(r, "run", "Create a schedule's job now, in addition to its times", func(ctx context.Context, c *client.Client, id string) (api.ScheduleRunResponse, error) {
			job, err := c.RunSchedule(ctx, id)
			return api.ScheduleRunResponse{Status: "ok", JobID: job}, err
		}, func(w io.Writer, made api.ScheduleRunResponse) { fmt.Fprintln(w, made.JobID) }),
		newScheduleNext(r),
	)
	return cmd
}

// onSchedule makes a command about one schedule.
func onSchedule[A any](r *remote, verb, short string, ask func(ctx context.Context, c *client.Client, id string) (A, error), show func(w io.Writer, a A)) *cobra.Command {
	return &cobra.Command{
		Use: verb + " SCHEDULE", Short: short, Args: cobra.ExactArgs(1),
		RunE: run(r, func(cmd *cobra.Command, c *client.Client, args []string) (answer A, err error) {
			id, err := scheduleID(cmd.Context(), c, args[0])
			if err != nil {
				return answer, err
			}
			return ask(cmd.Context(), c, id)
		}, show),
	}
}

// scheduleIDPrefix starts every schedule's id. A schedule whose name starts with it can only be called by its
// id.
const scheduleIDPrefix = "sched_"

// scheduleID returns the id of a schedule called by its id or its name.
func scheduleID(ctx context.Context, c *client.Client, idOrName string) (string, error) {
	if strings.HasPrefix(idOrName, scheduleIDPrefix) {
		return idOrName, nil
	}
	// Read strongly, so that a schedule created just before has its name.
	all, err := c.Schedules(ctx, client.Read{Strong: true})
	if err != nil {
		return "", err
	}
	return idOf(all, idOrName, "schedule", "schedules", func(s api.Schedule) (string, string) { return s.ID, s.Name })
}

func newScheduleCreate(r *remote) *cobra.Command {
	var req api.ScheduleRequest
	var payload, priority, jitter string
	var retries int
	var paused bool
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Create a schedule", Args: cobra.ExactArgs(1),
	}
	cmd.RunE = run(r, func(cmd *cobra.Command, c *client.Client, args []string) (api.Schedule, error) {
		req.Name, req.Priority, req.Jitter, req.Paused = args[0], api.Priority(priority), api.Duration(jitter), &paused
		if cmd.Flags().Changed("max-retries") {
			req.MaxRetries = &retries
		}
		if payload != "" {
			if !json.Valid([]byte(payload)) {
				return api.Schedule{}, misusef(`--payload is not JSON; write it like '{"kind":"daily"}'`)
			}
			req.Payload = json.RawMessage(payload)
		}
		return c.CreateSchedule(cmd.Context(), req)
	}, showSchedule)
	flags := cmd.Flags()
	flags.StringVar(&req.Queue, "queue", "", "queue of the jobs")
	flags.StringVar(&req.Cron, "cron", "", `times of the runs: "0 9 * * mon-fri", six fields with the second first, or @hourly, @daily, ...`)
	flags.StringVar(&req.Timezone, "timezone", "", "time zone of --cron, such as Europe/Berlin (default UTC)")
	flags.StringVar(&payload, "payload", "", "payload of the jobs, in JSON (default {})")
	flags.StringVar(&req.UniqueKey, "unique-key", "", "unique key of the jobs: one at a time")
	flags.StringVar(&req.FairnessKey, "fairness-key", "", "fairness key of the jobs")
	flags.IntVar(&req.FairnessWeight, "fairness-weight", 0, "weight of the fairness key, 1 to 1000 (default: unchanged)")
	flags.IntVar(&retries, "max-retries", 0, "limit on attempts, including the first (default 3)")
	flags.StringVar(&priority, "priority", "", "priority: critical, high or normal (default normal)")
	flags.StringVar(&req.Missed, "missed", "", "handling of runs missed during downtime: skip, once or all (default once)")
	flags.StringVar(&jitter, "jitter", "", "longest random delay of a run, such as 30s (default none)")
	flags.BoolVar(&paused, "paused", false, "create the schedule paused")
	flags.StringToStringVar((*map[string]string)(&req.Tags), "tag", nil, "tag of the jobs, NAME=VALUE; may be repeated")
	flags.StringToStringVar((*map[string]string)(&req.Headers), "header", nil, "header of the jobs, NAME=VALUE; may be repeated")
	return cmd
}

func newScheduleNext(r *remote) *cobra.Command {
	var n int
	cmd := onSchedule(r, "next", "List the next runs of a schedule", func(ctx context.Context, c *client.Client, id string) ([]api.Time, error) {
		return c.NextRuns(ctx, id, n)
	}, func(w io.Writer, all []api.Time) {
		for _, at := range all {
			fmt.Fprintln(w, at)
		}
	})
	cmd.Flags().IntVarP(&n, "number", "n", 10, "number of runs")
	return cmd
}

func showSchedules(w io.Writer, all []api.Schedule) {
	fmt.Fprintln(w, "NAME\tQUEUE\tCRON\tTIME ZONE\tNEXT RUN\tLAST RUN\tID")
	for _, s := range all {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", s.Name, s.Queue, s.Cron, s.Timezone, nextRun(s), known(timeText(s.LastRun)), s.ID)
	}
}

func showSchedule(w io.Writer, s api.Schedule) {
	uniqueKey := ""
	if s.UniqueKey != nil {
		uniqueKey = *s.UniqueKey
	}
	for _, row := range [][2]string{
		{"ID", s.ID}, {"NAME", s.Name}, {"QUEUE", s.Queue}, {"CRON", s.Cron}, {"TIME ZONE", s.Timezone},
		{"NEXT RUN", nextRun(s)}, {"LAST RUN", timeText(s.LastRun)}, {"CREATED", string(s.CreatedAt)},
		{"MISSED", s.Missed}, {"JITTER", string(s.Jitter)}, {"UNIQUE KEY", uniqueKey},
		{"MAX RETRIES", strconv.Itoa(s.MaxRetries)}, {"PRIORITY", string(api.PriorityOf(s.Priority))},
		{"TAGS", pairsText(s.Tags)}, {"HEADERS", pairsText(s.Headers)}, {"PAYLOAD", string(s.Payload)},
	} {
		fmt.Fprintf(w, "%s\t%s\n", row[0], known(row[1]))
	}
}

// nextRun formats a schedule's next run for people.
func nextRun(s api.Schedule) string {
	if s.Paused {
		return "paused"
	}
	return known(timeText(s.NextRun))
}

func timeText(t *api.Time) string {
	if t == nil {
		return ""
	}
	return string(*t)
}

// pairsText formats an object of strings on one line, sorted by name.
func pairsText(all api.Strings) string {
	var pairs []string
	for name, value := range all {
		pairs = append(pairs, name+"="+value)
	}
	slices.Sort(pairs)
	return strings.Join(pairs, ", ")
}
