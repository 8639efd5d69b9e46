package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// durationText passes a duration or a word in its place on to the server, which knows the words.
var durationText = form[api.Duration]{span.kind, func(text string) (api.Duration, error) { return api.Duration(text), nil }}

func newSettings() *cobra.Command {
	r := &remote{}
	cmd := group(&cobra.Command{Use: "settings", Short: "Show and change the namespace's settings"})
	r.bind(cmd)
	cmd.AddCommand(&cobra.Command{
		Use: "get", Short: "Show all settings", Args: cobra.NoArgs,
		RunE: run(r, func(cmd *cobra.Command, c *client.Client, _ []string) (api.Settings, error) {
			return c.Settings(cmd.Context(), client.Read{})
		}, showSettings),
	}, newSettingsSet(r))
	return cmd
}

func newSettingsSet(r *remote) *cobra.Command {
	var made edits[api.Settings]
	cmd := &cobra.Command{
		Use: "set", Short: "Change settings", Args: cobra.NoArgs,
		Long: "Change settings. Fields without a flag keep their value; --FLAG " + nothing + " restores the default.",
		RunE: run(r, func(cmd *cobra.Command, c *client.Client, _ []string) (api.Settings, error) {
			s, err := c.Settings(cmd.Context(), client.Read{Strong: true})
			if err != nil {
				return s, err
			}
			made.apply(&s)
			return c.PutSettings(cmd.Context(), s)
		}, showSettings),
	}
	made.bind(cmd,
		set("retention-completed", "default retention of completed jobs, such as 48h or forever", durationText, func(s *api.Settings) *api.Duration { return &s.Retention.Completed }),
		set("retention-dead", "default retention of dead jobs", durationText, func(s *api.Settings) *api.Duration { return &s.Retention.Dead }),
		set("retention-cancelled", "default retention of cancelled jobs", durationText, func(s *api.Settings) *api.Duration { return &s.Retention.Cancelled }),
		set("unknown-model", "treatment of models without a price: ceiling or hold", words, func(s *api.Settings) *string { return &s.UnknownModel }),
	)
	return cmd
}

func showSettings(w io.Writer, s api.Settings) {
	showOne(w, s,
		column[api.Settings]{"RETENTION COMPLETED", func(s api.Settings) string { return string(s.Retention.Completed) }},
		column[api.Settings]{"RETENTION DEAD", func(s api.Settings) string { return string(s.Retention.Dead) }},
		column[api.Settings]{"RETENTION CANCELLED", func(s api.Settings) string { return string(s.Retention.Cancelled) }},
		column[api.Settings]{"UNKNOWN MODEL", func(s api.Settings) string { return s.UnknownModel }},
	)
}
