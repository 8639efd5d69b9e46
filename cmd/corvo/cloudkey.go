package main

import (
	"cmp"
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// issuing makes a command whose answer contains a secret once. With --secret-file the secret goes to the file
// and is not printed.
func issuing[A any](r *remote, use, short string, args cobra.PositionalArgs, ask func(cmd *cobra.Command, c *client.Cloud, args []string) (A, error), secretOf func(*A) *string, columns ...column[A]) *cobra.Command {
	var file secretOut
	cmd := onCloud(r, use, short, args, func(cmd *cobra.Command, c *client.Cloud, args []string) (A, error) {
		return issue(&file, func() (A, error) { return ask(cmd, c, args) }, secretOf)
	}, func(w io.Writer, a A) {
		showOne(w, a, columns...)
		showKnown(w, a, column[A]{"SECRET", func(a A) string { return *secretOf(&a) }})
	})
	file.bind(cmd)
	return cmd
}

// keyRing describes the owner of keys, a namespace or an organisation, and its requests.
type keyRing struct {
	use, short, one string
	roles           []string // that a key may have; errors suggest the first
	owner           func(cmd *cobra.Command, c *client.Cloud) (string, error)
	list            func(c *client.Cloud, ctx context.Context, owner string) ([]api.Key, error)
	get             func(c *client.Cloud, ctx context.Context, owner, id string) (api.Key, error)
	create          func(c *client.Cloud, ctx context.Context, owner string, req api.CreateCloudKeyRequest) (api.CloudKey, error)
	rotate          func(c *client.Cloud, ctx context.Context, owner, id string, req api.RotateKeyRequest) (api.CloudKey, error)
	set             func(c *client.Cloud, ctx context.Context, owner, id string, req api.SetKeyRequest, version int64) (api.Key, error)
	revoke          func(c *client.Cloud, ctx context.Context, owner, id string, version int64) error
	bind            func(*cobra.Command) *cobra.Command
}

// cloudKeys makes the commands about a namespace's API keys.
func cloudKeys(r *remote) *cobra.Command {
	return keyRing{
		use: "keys", short: "Manage the API keys of --namespace", one: "API key",
		roles: keyRoles,
		owner: func(*cobra.Command, *client.Cloud) (string, error) { return namespaceOf(r, "keys") },
		list:  (*client.Cloud).NamespaceKeys, get: (*client.Cloud).NamespaceKey, create: (*client.Cloud).CreateNamespaceKey, rotate: (*client.Cloud).RotateNamespaceKey, set: (*client.Cloud).SetNamespaceKey, revoke: (*client.Cloud).RevokeNamespaceKey,
		bind: func(cmd *cobra.Command) *cobra.Command { return cmd },
	}.command(r)
}

// namespaceOf returns the namespace that --namespace or the environment names. The error
// message calls the wanted resources noun.
func namespaceOf(r *remote, noun string) (string, error) {
	a, _, err := r.open()
	if err == nil && a.namespace == "" {
		err = misusef("--namespace is missing: name the namespace of the %s, or set CORVO_NAMESPACE; corvo cloud namespaces lists all", noun)
	}
	return a.namespace, err
}

// cloudTokens makes the commands about an organisation's cloud tokens.
func cloudTokens(r *remote) *cobra.Command {
	var org string
	return keyRing{
		use: "tokens", short: "Manage the cloud tokens of an organisation", one: "cloud token",
		roles: []string{"operator", "readonly", "admin"},
		owner: func(cmd *cobra.Command, c *client.Cloud) (string, error) { return orgOf(cmd.Context(), c, org) },
		list:  (*client.Cloud).Tokens, get: (*client.Cloud).Token, create: (*client.Cloud).CreateToken, rotate: (*client.Cloud).RotateToken, set: (*client.Cloud).SetToken, revoke: (*client.Cloud).RevokeToken,
		bind: func(cmd *cobra.Command) *cobra.Command { return bindOrg(cmd, &org) },
	}.command(r)
}

var cloudKeyColumns = []column[api.Key]{
	{"ID", func(k api.Key) string { return k.ID }},
	{"NAME", func(k api.Key) string { return k.Name }},
	{"ROLES", func(k api.Key) string { return strings.Join(k.Roles, ", ") }},
	{"QUEUES", func(k api.Key) string { return cmp.Or(strings.Join(k.QueueScope, ", "), "all") }},
	{"ENABLED", func(k api.Key) string { return yes(k.Enabled) }},
	{"CREATED", func(k api.Key) string { return clock(k.CreatedAt) }},
	{"EXPIRES", func(k api.Key) string { return maybe(k.ExpiresAt, clock) }},
	{"LAST USED", func(k api.Key) string { return maybe(k.LastUsedAt, clock) }},
}

// issuedColumns returns the columns of a key with a new secret.
func issuedColumns() (all []column[api.CloudKey]) {
	for _, c := range cloudKeyColumns {
		all = append(all, column[api.CloudKey]{c.head, func(k api.CloudKey) string { return c.cell(k.Key) }})
	}
	return all
}

func (k keyRing) command(r *remote) *cobra.Command {
	columns := cloudKeyColumns
	return below(k.use, k.short,
		k.bind(onCloud(r, "list", "List "+k.one+"s, without their secrets", cobra.NoArgs, func(cmd *cobra.Command, c *client.Cloud, _ []string) ([]api.Key, error) {
			owner, err := k.owner(cmd, c)
			if err != nil {
				return nil, err
			}
			return k.list(c, cmd.Context(), owner)
		}, func(w io.Writer, all []api.Key) { showList(w, all, columns) })),
		k.bind(onCloud(r, "get KEY", "Show "+article(k.one)+", without its secret", cobra.ExactArgs(1), func(cmd *cobra.Command, c *client.Cloud, args []string) (key api.Key, err error) {
			owner, err := k.owner(cmd, c)
			if err != nil {
				return key, err
			}
			return k.get(c, cmd.Context(), owner, args[0])
		}, func(w io.Writer, key api.Key) { showOne(w, key, columns...) })),
		k.creating(r), k.changing(r), k.rotating(r),
		k.bind(onCloud(r, "revoke KEY", "Revoke "+article(k.one)+", immediately", cobra.ExactArgs(1), func(cmd *cobra.Command, c *client.Cloud, args []string) (api.Status, error) {
			owner, err := k.owner(cmd, c)
			if err != nil {
				return api.Status{}, err
			}
			return done("revoked"), k.revoke(c, cmd.Context(), owner, args[0], 0)
		}, showStatus)),
	)
}

func issuedKey(k *api.CloudKey) *string { return &k.APIKey }

func (k keyRing) creating(r *remote) *cobra.Command {
	var made edits[api.CreateCloudKeyRequest]
	type request = api.CreateCloudKeyRequest
	cmd := k.bind(issuing(r, "create NAME", "Create "+article(k.one), cobra.ExactArgs(1), func(cmd *cobra.Command, c *client.Cloud, args []string) (key api.CloudKey, err error) {
		owner, err := k.owner(cmd, c)
		if err != nil {
			return key, err
		}
		req := request{CreateKeyRequest: api.CreateKeyRequest{Name: args[0]}}
		made.apply(&req)
		return k.create(c, cmd.Context(), owner, req)
	}, issuedKey, issuedColumns()...))
	made.bind(cmd,
		set("roles", "roles, such as "+k.roles[0], names, func(r *request) *[]string { return &r.Roles }),
		set("queues", "patterns of the allowed queues, such as mail.* (default all)", names, func(r *request) *[]string { return &r.QueueScope }),
		set("expires-at", "time or date of expiry (default never)", instant, func(r *request) *api.Time { return &r.ExpiresAt }),
	)
	return asksForRoles(cmd, k.roles)
}

// asksForRoles makes a command that creates a key require --roles. A default role is rejected, because a key
// that may only read fails later on another person's machine, and a key that may do everything is a risk.
func asksForRoles(cmd *cobra.Command, roles []string) *cobra.Command {
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if cmd.Flags().Changed("roles") {
			return nil
		}
		return misusef("--roles is missing: give one or more of %s, such as --roles %s", strings.Join(roles, ", "), roles[0])
	}
	return cmd
}

func (k keyRing) changing(r *remote) *cobra.Command {
	var made edits[api.SetKeyRequest]
	short := "Change settings of " + article(k.one) + "; the secret stays"
	cmd := k.bind(onCloud(r, "set KEY", short, cobra.ExactArgs(1), func(cmd *cobra.Command, c *client.Cloud, args []string) (key api.Key, err error) {
		owner, err := k.owner(cmd, c)
		if err != nil {
			return key, err
		}
		was, err := k.get(c, cmd.Context(), owner, args[0])
		if err != nil {
			return key, err
		}
		req, err := changedKey(was, &made)
		if err != nil {
			return key, err
		}
		return k.set(c, cmd.Context(), owner, args[0], req, was.Version)
	}, func(w io.Writer, key api.Key) { showOne(w, key, cloudKeyColumns...) }))
	cmd.Long = short + ". " + partialChange
	made.bind(cmd, append(keyChanges, keyFlags...)...)
	return cmd
}

func (k keyRing) rotating(r *remote) *cobra.Command {
	var made edits[api.RotateKeyRequest]
	cmd := k.bind(issuing(r, "rotate KEY", "Replace the secret of "+article(k.one), cobra.ExactArgs(1), func(cmd *cobra.Command, c *client.Cloud, args []string) (key api.CloudKey, err error) {
		owner, err := k.owner(cmd, c)
		if err != nil {
			return key, err
		}
		var req api.RotateKeyRequest
		made.apply(&req)
		return k.rotate(c, cmd.Context(), owner, args[0], req)
	}, issuedKey, issuedColumns()...))
	made.bind(cmd, set("overlap", "remaining validity of the old secret, at most 168h (default 0s)", span, func(r *api.RotateKeyRequest) *api.Duration { return &r.Overlap }))
	return cmd
}
