package main

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// newEvents makes the command that prints each event on a line until a person interrupts it.
func newEvents() *cobra.Command {
	r := &remote{}
	var of client.EventQuery
	most := 0
	cmd := &cobra.Command{
		Use: "events", Short: "Follow events as they happen", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := r.client()
			if err != nil {
				return err
			}
			defer c.Close()
			show := showEvent
			if r.output == outputJSON {
				show = writeEvent
			}
			shown := 0
			for e, err := range c.Events(cmd.Context(), of) {
				if err != nil && cmd.Context().Err() != nil {
					return nil // an interrupt is the normal end
				}
				if err == nil {
					err = show(cmd.OutOrStdout(), e)
				}
				if err != nil {
					return err
				}
				if shown++; shown == most {
					return nil
				}
			}
			return nil
		},
	}
	r.bind(cmd)
	flags := cmd.Flags()
	flags.StringSliceVar(&of.Queues, "queue", nil, "queue of the events; may be repeated")
	flags.StringSliceVar(&of.Types, "type", nil, "type of the events, such as failed; may be repeated")
	flags.StringSliceVar(&of.JobIDs, "job", nil, "job id of the events; may be repeated")
	flags.StringVar(&of.After, "since", "", "id of the event to start after, 0 for the oldest stored event (default: new events)")
	flags.IntVar(&most, "limit", 0, "number of events after which the command ends (default: no limit)")
	return cmd
}

// writeEvent writes an event as a line of JSON.
func writeEvent(w io.Writer, e api.Event) error {
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	return out.Encode(e)
}

// showEvent prints an event on one line without control characters, so that it cannot control the terminal.
func showEvent(w io.Writer, e api.Event) error {
	data := ""
	if string(e.Data) != "{}" {
		data = string(e.Data)
	}
	line := fmt.Sprintf("%s  %-16s  %-16s  %-30s  %s", time.Unix(0, e.AtNs).UTC().Format(time.RFC3339), e.Type, e.Queue, e.JobID, data)
	_, err := fmt.Fprintln(w, plain(line))
	return err
}
