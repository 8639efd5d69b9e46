package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/dataplane/job"
)

// bulkEvery is how often an operation that goes on is looked at.
const bulkEvery = 500 * time.Millisecond

// bulk is a bulk operation as it is asked for on the command line.
type bulk struct {
	remote
	filter string
	async  bool
}

// newBulk is the command that does one thing to many jobs.
func newBulk() *cobra.Command {
	b := &bulk{}
	cmd := &cobra.Command{
		Use:   "bulk retry|requeue|cancel|move QUEUE|change_priority PRIORITY|approve|reject|hold|delete",
		Short: "Do one thing to many jobs: to those that a filter finds, or whose ids are read from stdin",
		Long: "Do one thing to many jobs: to those that --filter finds, or whose ids are read from stdin, one a line or as\n" +
			"the JSON that `corvo search` prints, any number of them. It waits for the end, and ends with 1 where there were errors.",
		Example: "  corvo bulk retry --filter '{\"queue\":\"emails\",\"state\":[\"dead\"]}'\n  corvo bulk move slow < ids.txt",
		Args:    cobra.RangeArgs(1, 2),
	}
	cmd.RunE = b.run
	cmd.Flags().StringVar(&b.filter, "filter", "", "which jobs, as JSON: the fields of a search")
	cmd.Flags().BoolVar(&b.async, "async", false, "do not wait for the end")
	b.bind(cmd)
	return cmd
}

func (b *bulk) run(cmd *cobra.Command, args []string) error {
	c, err := b.client()
	if err != nil {
		return err
	}
	defer c.Close()
	req, err := b.request(cmd.InOrStdin(), args)
	if err != nil {
		return err
	}
	if req.Filter == nil && len(req.JobIDs) == 0 {
		// A search that found nothing leaves nothing to do, which is no mistake.
		return tell(&b.remote, cmd, api.Bulk{Status: api.BulkCompleted, Action: req.Action, Failures: []api.BulkFailure{}}, showBulk)
	}
	if req.Filter != nil {
		return b.do(cmd, c, req)
	}
	var failed error
	for ids := range slices.Chunk(req.JobIDs, job.MaxBulkIDs) {
		req.JobIDs = ids
		err := b.do(cmd, c, req)
		if err != nil && !errors.Is(err, errNotAll) {
			return err
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

// errNotAll says that an operation ended, with errors.
var errNotAll = errors.New("jobs were not affected")

// do has one operation done, and tells how it ended.
func (b *bulk) do(cmd *cobra.Command, c *client.Client, req api.BulkRequest) error {
	ended, started, err := c.Bulk(cmd.Context(), req)
	switch {
	case err != nil:
		return err
	case ended == nil && b.async:
		return tell(&b.remote, cmd, *started, showStarted)
	}
	id := ""
	if ended != nil {
		id = ended.BulkOperationID
	} else {
		id = started.BulkOperationID
	}
	done, err := follow(cmd.Context(), c, id, progressOf(cmd.ErrOrStderr()))
	if err != nil {
		return err
	}
	if err := tell(&b.remote, cmd, done, showBulk); err != nil {
		return err
	}
	switch {
	case done.Status != api.BulkCompleted && done.Error != nil:
		return fmt.Errorf("%s is %s: %s", id, done.Status, *done.Error)
	case done.Status != api.BulkCompleted:
		return fmt.Errorf("%s is %s", id, done.Status)
	case done.Errors > 0:
		return fmt.Errorf("%d of %d %w", done.Errors, done.Processed, errNotAll)
	}
	return nil
}

// request is what the arguments, the flags and stdin ask for.
func (b *bulk) request(stdin io.Reader, args []string) (req api.BulkRequest, err error) {
	req = api.BulkRequest{Action: args[0], Async: true}
	value := ""
	if len(args) > 1 {
		value = args[1]
	}
	switch req.Action {
	case "move":
		req.MoveToQueue = value
	case "change_priority":
		if err := json.Unmarshal([]byte(value), &req.Priority); err != nil {
			req.Priority = api.Priority(value)
		}
	default:
		if value != "" {
			return req, misusef("%s takes no %q", req.Action, value)
		}
	}
	if b.filter != "" {
		d := json.NewDecoder(strings.NewReader(b.filter))
		d.DisallowUnknownFields()
		req.Filter = &api.SearchFilter{}
		if err := d.Decode(req.Filter); err != nil {
			return req, misusef("--filter is not one: %s", strings.TrimPrefix(err.Error(), "json: "))
		}
		return req, nil
	}
	if typed(stdin) {
		return req, misusef("no jobs are named: give their ids on stdin, or --filter")
	}
	req.JobIDs, err = readIDs(stdin)
	return req, err
}

// typed says whether a reader is a terminal, or whatever else no program has written
// ids to.
func typed(r io.Reader) bool {
	f, ok := r.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err != nil || info.Mode()&os.ModeCharDevice != 0
}

// readIDs reads ids, one a line, or jobs as JSON.
func readIDs(r io.Reader) (ids []string, err error) {
	text := bufio.NewReader(r)
	for {
		c, err := text.Peek(1)
		if err == io.EOF {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if len(bytes.TrimSpace(c)) > 0 {
			break
		}
		text.Discard(1) // it was peeked at
	}
	if c, _ := text.Peek(1); c[0] == '[' {
		var jobs []json.RawMessage
		if err := json.NewDecoder(text).Decode(&jobs); err != nil {
			return nil, misusef("stdin is no list of jobs: %v", err)
		}
		for _, raw := range jobs {
			var named struct{ ID string }
			var id string
			if json.Unmarshal(raw, &id) != nil {
				if err := json.Unmarshal(raw, &named); err != nil || named.ID == "" {
					return nil, misusef("stdin has %.40s, which is no job", raw)
				}
				id = named.ID
			}
			ids = append(ids, id)
		}
		return ids, nil
	}
	for lines := bufio.NewScanner(text); ; {
		if !lines.Scan() {
			return ids, lines.Err()
		}
		if id := strings.TrimSpace(lines.Text()); id != "" {
			ids = append(ids, id)
		}
	}
}

// progressOf is where progress is told: a terminal, or nowhere.
func progressOf(w io.Writer) io.Writer {
	if f, ok := w.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			return w
		}
	}
	return io.Discard
}

// follow waits for an operation's end.
func follow(ctx context.Context, c *client.Client, id string, progress io.Writer) (api.Bulk, error) {
	told := false
	for wait := bulkEvery / 50; ; wait = min(2*wait, bulkEvery) {
		b, err := c.BulkOperation(ctx, id)
		if err != nil || b.FinishedAt != nil {
			if told {
				fmt.Fprintln(progress)
			}
			return b, err
		}
		fmt.Fprintf(progress, "\r%s: %d of %d, %d errors ", b.Status, b.Processed, b.Total, b.Errors)
		told = true
		select {
		case <-ctx.Done():
			return b, ctx.Err()
		case <-time.After(wait):
		}
	}
}

func showStarted(w io.Writer, s api.BulkStarted) {
	fmt.Fprintf(w, "%s is %s about %d jobs\n", s.BulkOperationID, s.Status, s.EstimatedTotal)
}

func showBulk(w io.Writer, b api.Bulk) {
	fmt.Fprintf(w, "%s: %d affected, %d errors\n", b.Status, b.Affected, b.Errors)
	for _, f := range b.Failures {
		fmt.Fprintf(w, "%s\t%s\t%s\n", f.JobID, f.Code, f.Error)
	}
	if more := b.Errors - uint64(len(b.Failures)); more > 0 {
		fmt.Fprintf(w, "and %d more\n", more)
	}
}
