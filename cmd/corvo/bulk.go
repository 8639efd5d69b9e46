package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/cmd/internal/misuse"
	"github.com/corvo/corvo/dataplane/job"
)

// bulkEvery is the longest interval at which follow polls a running operation.
const bulkEvery = 500 * time.Millisecond

// bulk is a bulk operation as the command line requests it.
type bulk struct {
	remote
	filter string
	async  bool
	lot    int // most ids of one operation; 0 = as many as the server takes
}

// newBulk makes the command that applies one action to many jobs.
func newBulk() *cobra.Command {
	b := &bulk{}
	cmd := &cobra.Command{
		Use:   "bulk retry|requeue|cancel|move QUEUE|change_priority PRIORITY|approve|reject|hold|delete",
		Short: "Apply one action to many jobs",
		Long: "Apply one action to many jobs: the jobs that match --filter, or the jobs whose ids are on stdin. Write any number\n" +
			"of ids, one a line or as the JSON that `corvo search` prints. The command waits for the end; the exit code is 1\n" +
			"if a job failed.",
		Args: cobra.RangeArgs(1, 2),

		ValidArgsFunction: completeBulk,
	}
	cmd.RunE = b.run
	bindText(cmd.Flags(), &b.filter, "filter", "filter for the jobs, as JSON with the fields of a search")
	cmd.Flags().BoolVar(&b.async, "async", false, "start the operation and do not wait for its end")
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
		// A search without results leaves no job to act on, which is no error.
		return tell(&b.remote, cmd, unasked{Bulk: api.Bulk{Status: api.BulkCompleted, Action: req.Action, Failures: []api.BulkFailure{}}}, showUnasked)
	}
	if b.async {
		return b.start(cmd, c, req)
	}
	sum, err := b.do(cmd, c, req)
	if sum.ID == "" {
		return err // no operation has started
	}
	if b.output == outputTable {
		showFailures(cmd.ErrOrStderr(), sum)
	}
	return errors.Join(tell(&b.remote, cmd, sum, showBulk), err)
}

// unasked is the outcome of an operation on no jobs. The command sends no request for it, so it has neither
// an id nor times.
type unasked struct {
	api.Bulk
	ID        string   `json:"id,omitempty"`
	CreatedAt api.Time `json:"created_at,omitempty"`
	UpdatedAt api.Time `json:"updated_at,omitempty"`
}

func showUnasked(w io.Writer, u unasked) { showBulk(w, u.Bulk) }

// requests splits the ids into requests as large as the server accepts. It drops repeated ids, as the server
// does.
func (b *bulk) requests(req api.BulkRequest) (all []api.BulkRequest) {
	if req.Filter != nil {
		return []api.BulkRequest{req}
	}
	seen := make(map[string]bool, len(req.JobIDs))
	ids := slices.DeleteFunc(slices.Clone(req.JobIDs), func(id string) bool {
		twice := seen[id]
		seen[id] = true
		return twice
	})
	for lot := range slices.Chunk(ids, cmp.Or(b.lot, job.MaxBulkIDs)) {
		req.JobIDs = lot
		all = append(all, req)
	}
	return all
}

// start starts the operations without waiting and prints each.
func (b *bulk) start(cmd *cobra.Command, c *client.Client, req api.BulkRequest) error {
	for _, req := range b.requests(req) {
		ended, started, err := c.Bulk(cmd.Context(), req)
		if err != nil {
			return err
		}
		if started == nil {
			started = &api.BulkStarted{BulkOperationID: ended.BulkOperationID, Status: api.BulkCompleted, EstimatedTotal: ended.Affected + ended.Errors}
		}
		if err := tell(&b.remote, cmd, *started, showStarted); err != nil {
			return err
		}
	}
	return nil
}

// do runs the operations one after the other and adds up their outcomes. It stops at the first operation that
// fails.
func (b *bulk) do(cmd *cobra.Command, c *client.Client, req api.BulkRequest) (sum api.Bulk, err error) {
	p := newProgress(cmd)
	defer p.clear()
	total := uint64(len(req.JobIDs))
	for _, req := range b.requests(req) {
		ended, started, err := c.Bulk(cmd.Context(), req)
		if err != nil {
			return sum, err
		}
		id := ""
		if ended != nil {
			id = ended.BulkOperationID
		} else {
			id = started.BulkOperationID
		}
		one, err := follow(cmd.Context(), c, id, func(one api.Bulk) {
			p.show(sum.Processed+one.Processed, max(total, sum.Total+one.Total), fmt.Sprintf("%s: %d done, %d errors", req.Action, sum.Processed+one.Processed, sum.Errors+one.Errors))
		})
		if err != nil {
			return sum, fmt.Errorf("the server continues %s: %w", id, err)
		}
		sum = added(sum, one)
		switch {
		case one.Status != api.BulkCompleted && one.Error != nil:
			return sum, fmt.Errorf("%s is %s: %s", id, one.Status, *one.Error)
		case one.Status != api.BulkCompleted:
			return sum, fmt.Errorf("%s is %s", id, one.Status)
		}
	}
	if sum.Errors > 0 {
		were := "were"
		if sum.Processed == 1 {
			were = "was"
		}
		return sum, fmt.Errorf("%d of %s %s not %s", sum.Errors, jobsText(sum.Processed), were, bulkDone(req.Action))
	}
	return sum, nil
}

// added adds one operation's outcome to the sum of earlier ones. The sum lists the ids of all operations and
// has the status of the last.
func added(sum, one api.Bulk) api.Bulk {
	if sum.ID == "" {
		return one
	}
	one.ID = sum.ID + "," + one.ID
	one.CreatedAt = sum.CreatedAt
	one.Total += sum.Total
	one.Processed += sum.Processed
	one.Affected += sum.Affected
	one.Errors += sum.Errors
	one.Failures = append(sum.Failures, one.Failures...)
	return one
}

// bulkAsked parses and checks the arguments. The command checks them itself, because it sends no request if
// stdin names no jobs.
func bulkAsked(args []string) (req api.BulkRequest, err error) {
	req = api.BulkRequest{Action: args[0], Async: true}
	value := ""
	if len(args) > 1 {
		value = args[1]
	}
	switch {
	case !slices.Contains(bulkActions, req.Action):
		return req, misusef("%q is not an action: use one of %s", req.Action, strings.Join(bulkActions, ", "))
	case req.Action == "move":
		req.MoveToQueue = value
		if err := job.CheckQueueName(value); err != nil {
			return req, misusef("the target queue %w", err)
		}
	case req.Action == "change_priority":
		if err := json.Unmarshal([]byte(value), &req.Priority); err != nil {
			req.Priority = api.Priority(value)
		}
		if _, given, err := req.Priority.Level(); err != nil {
			return req, misuse.Of(err)
		} else if !given {
			return req, misusef("the new priority is missing: use one of %s", strings.Join(priorities, ", "))
		}
	case value != "":
		return req, misusef("%s takes no argument, not %q", req.Action, value)
	}
	return req, nil
}

// request builds the request from the arguments, the flags and stdin.
func (b *bulk) request(stdin io.Reader, args []string) (req api.BulkRequest, err error) {
	if req, err = bulkAsked(args); err != nil {
		return req, err
	}
	if b.filter != "" {
		d := json.NewDecoder(strings.NewReader(b.filter))
		d.DisallowUnknownFields()
		req.Filter = &api.SearchFilter{}
		if err := d.Decode(req.Filter); err != nil {
			return req, misusef("--filter is not a filter: %s", strings.TrimPrefix(err.Error(), "json: "))
		}
		return req, nil
	}
	if typed(stdin) {
		return req, misusef("no jobs are named: give their ids on stdin, or give --filter")
	}
	req.JobIDs, err = readIDs(stdin)
	return req, err
}

// typed reports whether a reader is a terminal or another character device, so that no program has written
// ids to it.
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
		text.Discard(1) // already peeked
	}
	if c, _ := text.Peek(1); c[0] == '[' {
		var jobs []json.RawMessage
		if err := json.NewDecoder(text).Decode(&jobs); err != nil {
			return nil, misusef("stdin is not a list of jobs: %v", err)
		}
		for _, raw := range jobs {
			var named struct{ ID string }
			var id string
			if json.Unmarshal(raw, &id) != nil {
				if err := json.Unmarshal(raw, &named); err != nil || named.ID == "" {
					return nil, misusef("stdin has %.40s, which is not a job", raw)
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

// follow polls an operation until it ends and passes each intermediate state to look.
func follow(ctx context.Context, c *client.Client, id string, look func(api.Bulk)) (api.Bulk, error) {
	for wait := bulkEvery / 50; ; wait = min(2*wait, bulkEvery) {
		b, err := c.BulkOperation(ctx, id)
		if err != nil || b.FinishedAt != nil {
			return b, err
		}
		look(b)
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

// bulkDone returns the participle for an action, such as "retried".
func bulkDone(action string) string {
	switch action {
	case "retry":
		return "retried"
	case "cancel":
		return "cancelled"
	case "change_priority":
		return "given another priority"
	case "hold":
		return "held"
	}
	return strings.TrimSuffix(action, "e") + "ed"
}

func showBulk(w io.Writer, b api.Bulk) {
	if b.Status != api.BulkCompleted {
		fmt.Fprintf(w, "%s: ", b.Status)
	}
	fmt.Fprintf(w, "%s %s", jobsText(b.Affected), bulkDone(b.Action))
	if b.Errors > 0 {
		fmt.Fprintf(w, ", %d not", b.Errors)
	}
	fmt.Fprintln(w)
}

// showFailures lists the jobs that the operation did not affect, with the reasons. It is separate from the
// outcome, because a long list would bury that.
func showFailures(w io.Writer, b api.Bulk) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	defer table.Flush()
	for _, f := range b.Failures {
		row(table, f.JobID, f.Code, f.Error)
	}
	if more := b.Errors - uint64(len(b.Failures)); more > 0 {
		fmt.Fprintf(table, "and %d more\n", more)
	}
}
