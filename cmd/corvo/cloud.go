package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/cmd/internal/misuse"
)

// newCloud makes the commands about the control plane.
func newCloud() *cobra.Command {
	r := &remote{}
	cmd := group(&cobra.Command{Use: "cloud", Short: "Manage organisations, namespaces and keys in the cloud", Long: "Manage organisations, namespaces and keys in the cloud. These commands need a cloud token: run corvo login, set\n" +
		"CORVO_CLOUD_TOKEN or give --cloud-token-file. Only operators of the cloud may create organisations and manage hosts\n" +
		"and clusters."})
	r.bind(cmd)
	cmd.AddCommand(cloudOrgs(r), cloudNamespaces(r), cloudKeys(r), cloudRoles(r), cloudTokens(r), cloudUsage(r), cloudBilling(r), cloudHosts(r), cloudFleetRoots(r), cloudOperators(r), cloudClusters(r), cloudProcesses(r), cloudAudit(r), cloudOperations(r))
	return cmd
}

// onCloud makes a command that sends a request to the control plane.
func onCloud[A any](r *remote, use, short string, args cobra.PositionalArgs, ask func(cmd *cobra.Command, c *client.Cloud, args []string) (A, error), show func(io.Writer, A)) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Args: args, RunE: func(cmd *cobra.Command, args []string) error {
		c, err := r.cloud()
		if err != nil {
			return err
		}
		defer c.Close()
		a, err := ask(cmd, c, args)
		if err != nil {
			return err
		}
		return tell(r, cmd, a, show)
	}}
}

// below makes a command that groups others.
func below(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := group(&cobra.Command{Use: use, Short: short})
	cmd.AddCommand(commands...)
	return cmd
}

// alias gives a command a second name.
func alias(name string, cmd *cobra.Command) *cobra.Command {
	cmd.Aliases = append(cmd.Aliases, name)
	return cmd
}

// bindOrg adds the flag for an organisation. Without it, a command uses the only organisation that the token
// may see.
func bindOrg(cmd *cobra.Command, org *string) *cobra.Command {
	bindText(cmd.Flags(), org, "org", "id or name of the organisation (default: the token's only one)")
	return cmd
}

func orgOf(ctx context.Context, c *client.Cloud, org string) (string, error) {
	if org != "" {
		return org, nil
	}
	all, err := c.Orgs(ctx)
	if err != nil {
		return "", err
	}
	if len(all) != 1 {
		return "", misusef("the token may see %d organisations: name one with --org; corvo cloud orgs lists them", len(all))
	}
	return all[0].ID, nil
}

// listOfOrg makes a command that lists what an organisation has.
func listOfOrg[A any](r *remote, use, short string, list func(*client.Cloud, context.Context, string) ([]A, error), columns []column[A]) *cobra.Command {
	var org string
	return bindOrg(onCloud(r, use, short, cobra.NoArgs, func(cmd *cobra.Command, c *client.Cloud, _ []string) ([]A, error) {
		org, err := orgOf(cmd.Context(), c, org)
		if err != nil {
			return nil, err
		}
		return list(c, cmd.Context(), org)
	}, func(w io.Writer, all []A) { showList(w, all, columns) }), &org)
}

func cloudOrgs(r *remote) *cobra.Command {
	columns := []column[api.Org]{
		{"ORGANISATION", func(o api.Org) string { return o.Name }},
		{"ID", func(o api.Org) string { return o.ID }},
		{"NAMESPACES", func(o api.Org) string { return count(o.Status.Namespaces) }},
		{"CREATED", func(o api.Org) string { return clock(o.CreatedAt) }},
	}
	one := func(w io.Writer, o api.Org) { showOne(w, o, columns...) }
	return below("orgs", "Manage organisations",
		onCloud(r, "list", "List the organisations that the token may see", cobra.NoArgs, func(cmd *cobra.Command, c *client.Cloud, _ []string) ([]api.Org, error) {
			return c.Orgs(cmd.Context())
		}, func(w io.Writer, all []api.Org) { showList(w, all, columns) }),
		onCloud(r, "get ORG", "Show an organisation", cobra.ExactArgs(1), func(cmd *cobra.Command, c *client.Cloud, args []string) (api.Org, error) {
			return c.Org(cmd.Context(), args[0])
		}, one),
		onCloud(r, "create NAME", "Create an organisation (operators only)", cobra.ExactArgs(1), func(cmd *cobra.Command, c *client.Cloud, args []string) (api.Org, error) {
			return c.CreateOrg(cmd.Context(), api.CreateOrgRequest{Name: args[0]})
		}, one),
	)
}

func cloudNamespaces(r *remote) *cobra.Command {
	columns := []column[api.Namespace]{
		{"NAMESPACE", func(n api.Namespace) string { return n.Name }},
		{"ID", func(n api.Namespace) string { return n.ID }},
		{"PHASE", func(n api.Namespace) string { return n.Status.Phase }},
		{"REGION", func(n api.Namespace) string { return n.Spec.Region }},
		{"TIER", func(n api.Namespace) string { return n.Spec.Tier }},
		{"REPLICAS", func(n api.Namespace) string { return count(n.Spec.Replicas) }},
		{"SHARDS", func(n api.Namespace) string { return count(n.Spec.Shards) }},
		{"PROTECTED", func(n api.Namespace) string { return yes(n.Spec.DeletionProtection) }},
		{"ENDPOINT", func(n api.Namespace) string { return n.Status.Endpoint }},
	}
	one := func(w io.Writer, n api.Namespace) { showOne(w, n, columns...) }
	return below("namespaces", "Manage namespaces",
		listOfOrg(r, "list", "List the namespaces of an organisation", (*client.Cloud).Namespaces, columns),
		onCloud(r, "get NAMESPACE", "Show a namespace", cobra.ExactArgs(1), func(cmd *cobra.Command, c *client.Cloud, args []string) (api.Namespace, error) {
			return c.Namespace(cmd.Context(), args[0])
		}, one),
		createNamespace(r, one), updateNamespace(r, one), deleteNamespace(r),
	)
}

func createNamespace(r *remote, show func(io.Writer, api.Namespace)) *cobra.Command {
	var org string
	var made edits[api.NewNamespaceSpec]
	cmd := bindOrg(onCloud(r, "create NAME", "Create a namespace and wait until it is ready", cobra.ExactArgs(1), func(cmd *cobra.Command, c *client.Cloud, args []string) (n api.Namespace, err error) {
		org, err := orgOf(cmd.Context(), c, org)
		if err != nil {
			return n, err
		}
		req := api.CreateNamespaceRequest{Name: args[0], Spec: &api.NewNamespaceSpec{}}
		made.apply(req.Spec)
		op, err := c.CreateNamespace(cmd.Context(), org, req)
		if err != nil {
			return n, err
		}
		if op, err = waitOperation(cmd, c, op, 0); err != nil {
			return n, err
		}
		return c.Namespace(cmd.Context(), op.Resource.ID)
	}, show), &org)
	made.bind(cmd,
		set("region", "region of the namespace (default: the cloud's first region)", words, func(s *api.NewNamespaceSpec) *string { return &s.Region }),
		set("tier", "tier: shared or dedicated (default shared)", words, func(s *api.NewNamespaceSpec) *string { return &s.Tier }),
		option("replicas", "number of replicas: 1, 3 or 5 (default 1)", whole, func(s *api.NewNamespaceSpec) **int { return &s.Replicas }),
		option("shards", "number of shards, fixed at creation (default 1)", whole, func(s *api.NewNamespaceSpec) **int { return &s.Shards }),
		option("deletion-protection", "refuse deletion of the namespace", yesNo, func(s *api.NewNamespaceSpec) **bool { return &s.DeletionProtection }),
	)
	return cmd
}

func updateNamespace(r *remote, show func(io.Writer, api.Namespace)) *cobra.Command {
	var made edits[api.NewNamespaceSpec]
	var wait waitFlags
	cmd := onCloud(r, "update NAMESPACE", "Change settings of a namespace", cobra.ExactArgs(1), func(cmd *cobra.Command, c *client.Cloud, args []string) (api.Namespace, error) {
		req := api.UpdateNamespaceRequest{Spec: &api.NewNamespaceSpec{}}
		made.apply(req.Spec)
		if err := wait.check(); err != nil {
			return api.Namespace{}, err
		}
		ns, err := c.UpdateNamespace(cmd.Context(), args[0], req, 0)
		if err == nil && wait.wait {
			ns, err = awaitSettled(cmd, c, ns, wait.most)
		}
		return ns, err
	}, show)
	wait.bind(cmd, "wait until the change is in effect")
	cmd.Long = "Change settings of a namespace. Another number of replicas takes effect in the background, while the namespace\n" +
		"serves. The exit code with --wait is 0 when it is in effect, and 3 when --timeout is over first. The change goes on\n" +
		"in any case."
	made.bind(cmd,
		option("replicas", "number of replicas: 1, 3 or 5", whole, func(s *api.NewNamespaceSpec) **int { return &s.Replicas }),
		option("deletion-protection", "refuse deletion of the namespace", yesNo, func(s *api.NewNamespaceSpec) **bool { return &s.DeletionProtection }),
	)
	return cmd
}

func deleteNamespace(r *remote) *cobra.Command {
	var confirm bool
	cmd := onCloud(r, "delete NAMESPACE --confirm", "Delete a namespace with all its data and wait for the end", cobra.ExactArgs(1), func(cmd *cobra.Command, c *client.Cloud, args []string) (api.Status, error) {
		if !confirm {
			return api.Status{}, misusef("this permanently deletes namespace %s with all its data: give --confirm to do it", args[0])
		}
		op, err := c.DeleteNamespace(cmd.Context(), args[0], 0)
		if err != nil {
			return api.Status{}, err
		}
		_, err = waitOperation(cmd, c, op, 0)
		return done("deleted"), err
	}, showStatus)
	cmd.Flags().BoolVar(&confirm, "confirm", false, "confirm the deletion")
	return cmd
}

func cloudUsage(r *remote) *cobra.Command {
	var org, from, to string
	var q client.UsageQuery
	names := map[string]string{} // namespaces by id
	cmd := bindOrg(onCloud(r, "usage", "Show the usage of an organisation or of --namespace", cobra.NoArgs, func(cmd *cobra.Command, c *client.Cloud, _ []string) (u api.UsageReport, err error) {
		for _, bound := range []struct {
			text string
			at   *time.Time
		}{{from, &q.From}, {to, &q.To}} {
			at, err := instant.read(bound.text)
			if bound.text == "" {
				continue
			}
			if err != nil {
				return u, misuse.Of(err)
			}
			if *bound.at, _, err = at.Parse(); err != nil {
				return u, misuse.Of(err)
			}
		}
		if r.namespace != "" {
			return c.NamespaceUsage(cmd.Context(), r.namespace, q)
		}
		if org, err = orgOf(cmd.Context(), c, org); err != nil {
			return u, err
		}
		if q.GroupBy == "namespace" && r.output == outputTable {
			all, err := c.Namespaces(cmd.Context(), org)
			if err != nil {
				return u, err
			}
			for _, n := range all {
				names[n.ID] = n.Name
			}
		}
		return c.Usage(cmd.Context(), org, q)
	}, func(w io.Writer, u api.UsageReport) { showCloudUsage(w, u, names) }), &org)
	flags := cmd.Flags()
	flags.StringVar(&from, "from", "", "start, a time or a date (default 30 days ago)")
	flags.StringVar(&to, "to", "", "end, a time or a date (default now)")
	flags.StringVar(&q.GroupBy, "group-by", "", "grouping: namespace, queue, model, provider or day")
	completeFlag(cmd, "group-by", oneOf("namespace", "queue", "model", "provider", "day"))
	return cmd
}

// showCloudUsage shows the groups, their total and the corrections that the total contains. It shows deleted namespaces by id, because their names are
// no longer known.
func showCloudUsage(w io.Writer, u api.UsageReport, names map[string]string) {
	fmt.Fprintf(w, "from %s to %s", clock(u.From), clock(u.To))
	if u.AsOf != nil {
		fmt.Fprintf(w, ", as of %s", clock(*u.AsOf))
	}
	fmt.Fprintf(w, ", complete until %s\n\n", clock(u.CompleteUntil))
	rows := append(u.Groups[:len(u.Groups):len(u.Groups)], api.UsageGroup{Key: "total", UsageTotals: u.Totals})
	if u.Corrected != (api.UsageTotals{}) {
		rows = append(rows, api.UsageGroup{Key: "corrections in total", UsageTotals: u.Corrected})
	}
	showList(w, rows, []column[api.UsageGroup]{
		{"GROUP", func(g api.UsageGroup) string { return cmp.Or(names[g.Key], g.Key) }},
		{"COST USD", func(g api.UsageGroup) string { return usd(g.CostUSD) }},
		{"JOBS", func(g api.UsageGroup) string { return count(g.JobsEnqueued) }},
		{"COMPLETED", func(g api.UsageGroup) string { return count(g.JobsCompleted) }},
		{"ACTIVE S", func(g api.UsageGroup) string { return count(g.ActiveSeconds) }},
		{"STORED BYTE S", func(g api.UsageGroup) string { return count(g.StoredByteSeconds) }},
		{"OPEN S", func(g api.UsageGroup) string { return count(g.OpenSeconds) }},
		{"REPORTS", func(g api.UsageGroup) string { return count(g.Reports) }},
		{"REJECTED", func(g api.UsageGroup) string { return count(g.RejectedReports) }},
		{"INPUT", func(g api.UsageGroup) string { return count(g.InputTokens) }},
		{"OUTPUT", func(g api.UsageGroup) string { return count(g.OutputTokens) }},
		{"REQUESTS", func(g api.UsageGroup) string { return count(g.Requests) }},
		{"BYTES IN", func(g api.UsageGroup) string { return count(g.RequestBytes) }},
		{"BYTES OUT", func(g api.UsageGroup) string { return count(g.ResponseBytes) }},
	})
	if len(u.LateSources) > 0 {
		fmt.Fprint(w, "\nusage of these sources may still come:\n\n")
		showList(w, u.LateSources, []column[api.UsageSource]{
			{"NAMESPACE", func(s api.UsageSource) string { return cmp.Or(names[s.Namespace], s.Namespace, "all") }},
			{"SOURCE", func(s api.UsageSource) string { return s.Stream }},
			{"COMPLETE UNTIL", func(s api.UsageSource) string { return clock(s.CompleteUntil) }},
		})
	}
}

func cloudAudit(r *remote) *cobra.Command {
	return listOfOrg(r, "audit", "List an organisation's changes and refused requests, oldest first", (*client.Cloud).Audit, []column[api.AuditRow]{
		{"SEQ", func(a api.AuditRow) string { return count(a.Seq) }},
		{"AT", func(a api.AuditRow) string { return clock(a.At) }},
		{"PRINCIPAL", func(a api.AuditRow) string { return a.Principal }},
		{"ACTION", func(a api.AuditRow) string { return a.Action }},
		{"TARGET", func(a api.AuditRow) string { return a.Target }},
		{"REFUSED", func(a api.AuditRow) string { return string(a.Refused) }},
		{"COUNT", func(a api.AuditRow) string { return count(a.Count) }},
	})
}
