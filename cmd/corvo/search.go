package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

func newSearch() *cobra.Command {
	r := &remote{}
	var f api.SearchFilter
	var tags []string
	var after, before string
	most := 0
	cmd := &cobra.Command{
		Use: "search", Short: "Find jobs, newest first", Args: cobra.NoArgs,
		Long: "Find jobs, newest first. Into a pipe or a file the command prints the ids alone, one a line, for corvo bulk.",
		RunE: run(r, func(cmd *cobra.Command, c *client.Client, _ []string) ([]api.Job, error) {
			if most < 0 {
				return nil, misusef("--limit is %d; it must be 0, for no limit, or more", most)
			}
			if cmd.Flags().Changed("state") && (len(f.State) == 0 || slices.Contains(f.State, "")) {
				return nil, misusef("--state: %w", notEmpty(""))
			}
			f.CreatedAfter, f.CreatedBefore = api.Time(after), api.Time(before)
			f.Tags = api.Strings{}
			for _, tag := range tags {
				name, value, ok := strings.Cut(tag, "=")
				if !ok || name == "" {
					return nil, misusef("--tag is %q; write it as NAME=VALUE", tag)
				}
				if _, twice := f.Tags[name]; twice {
					return nil, misusef("--tag %s is given twice: a job has one value for a tag", name)
				}
				f.Tags[name] = value
			}
			page := searchPage
			if most > 0 {
				page = min(page, most)
			}
			all := []api.Job{}
			err := c.SearchAll(cmd.Context(), api.SearchRequest{SearchFilter: f, Limit: &page}, client.Read{}, most, func(j *api.Job) error {
				all = append(all, *j)
				return nil
			})
			return all, err
		}, showFound),
	}
	r.bind(cmd)
	flags := cmd.Flags()
	bindText(flags, &f.Queue, "queue", "queue of the jobs")
	flags.StringSliceVar(&f.State, "state", nil, "state of the jobs; may be repeated")
	flags.StringArrayVar(&tags, "tag", nil, "tag of the jobs, NAME=VALUE; may be repeated")
	bindText(flags, &f.PayloadContains, "payload-contains", "text in the payload")
	bindText(flags, &f.PayloadJQ, "payload-jq", "jq condition on the payload, such as '.amount > 100'")
	bindText(flags, &f.ErrorContains, "error-contains", "text in an error of the job")
	bindText(flags, &after, "created-after", "earliest creation, a time or a date (UTC)")
	bindText(flags, &before, "created-before", "latest creation, a time or a date (UTC)")
	flags.IntVar(&most, "limit", 0, "largest number of jobs; 0 for no limit")
	return cmd
}

// showFound prints a table on a terminal, else one id a line for programs.
func showFound(w io.Writer, all []api.Job) {
	if !forPerson() {
		for _, j := range all {
			fmt.Fprintln(w, j.ID)
		}
		return
	}
	showList(w, all, []column[api.Job]{
		{"JOB", func(j api.Job) string { return j.ID }},
		{"QUEUE", func(j api.Job) string { return j.Queue }},
		{"STATE", func(j api.Job) string { return j.State }},
		{"ATTEMPT", func(j api.Job) string { return count(j.Attempt) }},
		{"CREATED", func(j api.Job) string { return clock(j.CreatedAt) }},
		{"LAST ERROR", func(j api.Job) string { return maybe(j.LastError, texts) }},
	})
}
