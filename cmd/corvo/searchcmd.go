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
		Use: "search", Short: "Find jobs, newest first; into a pipe or a file it prints their ids, for corvo bulk", Args: cobra.NoArgs,
		RunE: run(r, func(cmd *cobra.Command, c *client.Client, _ []string) ([]api.Job, error) {
			if most < 0 {
				return nil, misusef("--limit is %d; it says how many jobs are shown at most, and 0 is all", most)
			}
			if cmd.Flags().Changed("state") && (len(f.State) == 0 || slices.Contains(f.State, "")) {
				return nil, misusef("--state: %w", notEmpty(""))
			}
			f.CreatedAfter, f.CreatedBefore = api.Time(after), api.Time(before)
			f.Tags = api.Strings{}
			for _, tag := range tags {
				name, value, ok := strings.Cut(tag, "=")
				if !ok || name == "" {
					return nil, misusef("--tag is %q; write it as name=value", tag)
				}
				if _, twice := f.Tags[name]; twice {
					return nil, misusef("--tag %s is given twice: a job has one value of a tag", name)
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
	bindText(flags, &f.Queue, "queue", "only those of this queue")
	flags.StringSliceVar(&f.State, "state", nil, "only those in one of these states; may be given several times")
	flags.StringArrayVar(&tags, "tag", nil, "only those with this tag, as name=value; may be given several times")
	bindText(flags, &f.PayloadContains, "payload-contains", "only those whose payload has this text")
	bindText(flags, &f.PayloadJQ, "payload-jq", "only those whose payload meets this condition, such as '.amount > 100'")
	bindText(flags, &f.ErrorContains, "error-contains", "only those of which an error has this text")
	bindText(flags, &after, "created-after", "only those created after this time or date (UTC)")
	bindText(flags, &before, "created-before", "only those created before this time or date (UTC)")
	flags.IntVar(&most, "limit", 0, "how many at most; 0 is all")
	return cmd
}

// showFound shows jobs to a person as a table, and to a program by their ids, one a
// line.
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
