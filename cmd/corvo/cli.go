package main

import (
	"cmp"
	"encoding/json"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api/client"
)

// remote is how the commands that ask a node reach it, and how they answer.
type remote struct {
	endpoint string
	apiKey   string
	output   string
}

const (
	defaultEndpoint = "http://127.0.0.1:8080"

	outputTable = "table"
	outputJSON  = "json"
)

// bind gives a command and those below it the flags.
func (r *remote) bind(cmd *cobra.Command) {
	flags := cmd.PersistentFlags()
	flags.StringVar(&r.endpoint, "endpoint", "", "URL of a node, or CORVO_ENDPOINT (default "+defaultEndpoint+")")
	flags.StringVar(&r.apiKey, "api-key", "", "API key; better CORVO_API_KEY, which the list of processes does not show")
	flags.StringVar(&r.output, "output", outputTable, outputTable+" or "+outputJSON)
}

// client makes the client that flags and environment ask for.
func (r *remote) client() (*client.Client, error) {
	if r.output != outputTable && r.output != outputJSON {
		return nil, misusef("--output is %q; it must be %s or %s", r.output, outputTable, outputJSON)
	}
	endpoint := cmp.Or(r.endpoint, os.Getenv("CORVO_ENDPOINT"), defaultEndpoint)
	return client.New(endpoint, cmp.Or(r.apiKey, os.Getenv("CORVO_API_KEY")))
}

// run makes the body of a command of a function that asks, and of one that shows
// the answer to people.
func run[A any](r *remote, ask func(cmd *cobra.Command, c *client.Client, args []string) (A, error), show func(w io.Writer, a A)) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := r.client()
		if err != nil {
			return err
		}
		defer c.Close()
		a, err := ask(cmd, c, args)
		if err != nil {
			return err
		}
		return tell(r, cmd, a, show)
	}
}

// tell answers in the form that was asked for.
func tell[A any](r *remote, cmd *cobra.Command, a A, show func(w io.Writer, a A)) error {
	if r.output == outputJSON {
		out := json.NewEncoder(cmd.OutOrStdout())
		out.SetEscapeHTML(false)
		return out.Encode(a)
	}
	table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	show(table, a)
	return table.Flush()
}

// oneLine is an error as the command line shows it.
func oneLine(err error) string {
	return strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' }), "; ")
}
