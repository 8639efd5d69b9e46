package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/cmd/internal/misuse"
)

// completionTimeout bounds the wait for a server when a person presses the tab key.
const completionTimeout = time.Second

// completionMost is the number of jobs that completion offers.
const completionMost = 50

// The words of the API that completion offers.
var (
	jobStates   = []string{"pending", "active", "scheduled", "retrying", "held", "completed", "dead", "cancelled"}
	bulkActions = []string{"retry", "requeue", "cancel", "move", "change_priority", "approve", "reject", "hold", "delete"}
	priorities  = []string{"critical", "high", "normal"}
)

// placeCompletions maps an argument's place in the usage to its completions; flagCompletions maps a flag's
// name.
var (
	placeCompletions = map[string]cobra.CompletionFunc{"QUEUE": completeQueues, "SCHEDULE": completeSchedules, "PROFILE": completeProfiles}
	flagCompletions  = map[string]cobra.CompletionFunc{
		"queue": completeQueues, "state": oneOf(jobStates...), "priority": oneOf(priorities...),
		"group-by": oneOf("queue", "model", "provider", "day", "tag:"), "on-exceed": oneOf("hold", "reject", "alert_only", "throttle"),
	}
)

// complete adds the completion command and gives every command its completions.
func complete(root *cobra.Command) {
	misuse.Completion(root)
	completeBelow(root, root)
}

func completeBelow(root, cmd *cobra.Command) {
	for name, offer := range flagCompletions {
		if cmd.Flags().Lookup(name) != nil {
			completeFlag(cmd, name, offer)
		}
	}
	if cmd.ValidArgsFunction == nil && len(cmd.ValidArgs) == 0 && !cmd.HasSubCommands() {
		cmd.ValidArgsFunction = completeArgs(strings.Fields(cmd.Use)[1:], cmd.Parent() == root)
	}
	for _, below := range cmd.Commands() {
		completeBelow(root, below)
	}
}

// completeFlag registers the completions of a flag that has none yet.
func completeFlag(cmd *cobra.Command, name string, offer cobra.CompletionFunc) {
	if _, known := cmd.GetFlagCompletionFunc(name); known {
		return
	}
	if err := cmd.RegisterFlagCompletionFunc(name, offer); err != nil {
		panic(err) // the flag does not exist
	}
}

// completeArgs completes each argument by its place in the usage. ID means a job only in top-level commands.
func completeArgs(places []string, top bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		at := len(args)
		if n := len(places); at >= n && n > 0 && strings.HasSuffix(places[n-1], "...") {
			at = n - 1
		}
		if at >= len(places) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		place := strings.Trim(places[at], "[].")
		if place == "ID" && top {
			return completeJobs(cmd, args, begun)
		}
		if offer := placeCompletions[place]; offer != nil {
			return offer(cmd, args, begun)
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeBulk completes the arguments of corvo bulk.
func completeBulk(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	switch {
	case len(args) == 0:
		return bulkActions, cobra.ShellCompDirectiveNoFileComp
	case len(args) == 1 && args[0] == "move":
		return completeQueues(cmd, args, begun)
	case len(args) == 1 && args[0] == "change_priority":
		return priorities, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

func oneOf(words ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
}

func completeProfiles(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	all, err := readProfiles()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return all.names(), cobra.ShellCompDirectiveNoFileComp
}

// asked completes with the server's answer, or with nothing if the server does not answer in time.
func asked(ask func(ctx context.Context, c *client.Client, begun string) ([]cobra.Completion, error)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(context.Background(), completionTimeout)
		defer cancel()
		c, err := remoteOf(cmd).client(client.WithRetries(0))
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer c.Close()
		all, err := ask(ctx, c, begun)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return slices.DeleteFunc(all, func(one cobra.Completion) bool { return slices.Contains(args, one) }), cobra.ShellCompDirectiveNoFileComp
	}
}

var (
	completeQueues = asked(func(ctx context.Context, c *client.Client, _ string) (names []cobra.Completion, err error) {
		all, err := c.Queues(ctx, client.Read{Eventual: true})
		for _, q := range all {
			names = append(names, q.Name)
		}
		return names, err
	})
	completeSchedules = asked(func(ctx context.Context, c *client.Client, _ string) (names []cobra.Completion, err error) {
		all, err := c.Schedules(ctx, client.Read{Eventual: true})
		for _, s := range all {
			names = append(names, s.Name)
		}
		return names, err
	})
	completeJobs = asked(func(ctx context.Context, c *client.Client, begun string) (ids []cobra.Completion, err error) {
		most := completionMost
		page, err := c.Search(ctx, api.SearchRequest{SearchFilter: api.SearchFilter{JobIDPrefix: begun}, Limit: &most}, client.Read{Eventual: true})
		for _, j := range page.Jobs {
			ids = append(ids, cobra.CompletionWithDesc(j.ID, j.Queue+" "+j.State))
		}
		return ids, err
	})
)

// remoteOf rebuilds a command's remote from its flags.
func remoteOf(cmd *cobra.Command) *remote {
	text := func(name string) string {
		if f := cmd.Flag(name); f != nil {
			return f.Value.String()
		}
		return ""
	}
	return &remote{
		endpoint: text("endpoint"), apiKey: text("api-key"), apiKeyFile: text("api-key-file"), cloudTokenFile: text("cloud-token-file"),
		namespace: text("namespace"), profile: text("profile"), output: outputTable,
	}
}
