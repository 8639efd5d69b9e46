package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// keyFlags are the flags that creating and changing a key have in common.
var keyFlags = []edit[api.SetKeyRequest]{
	set("roles", "roles of the key, such as worker,readonly", names, func(r *api.SetKeyRequest) *[]string { return &r.Roles }),
	set("queues", "patterns of the allowed queues, such as mail.* (default all)", names, func(r *api.SetKeyRequest) *[]string { return &r.QueueScope }),
	set("expires-at", "time or date of expiry (default never)", instant, func(r *api.SetKeyRequest) *api.Time { return &r.ExpiresAt }),
}

// keyRoles are the built-in roles of an API key.
var keyRoles = []string{"worker", "readonly", "operator", "admin"}

// keyChanges are the flags that only changing a key has.
var keyChanges = []edit[api.SetKeyRequest]{
	set("name", "name of the key", words, func(r *api.SetKeyRequest) *string { return &r.Name }),
	option("enabled", "whether the key is valid", yesNo, func(r *api.SetKeyRequest) **bool { return &r.Enabled }),
}

var keyColumns = []column[api.Key]{
	{"ID", func(k api.Key) string { return k.ID }},
	{"NAME", func(k api.Key) string { return texts(k.Name) }},
	{"ROLES", func(k api.Key) string { return joinOr(k.Roles, "none") }},
	{"QUEUES", func(k api.Key) string { return joinOr(k.QueueScope, "all") }},
	{"ENABLED", func(k api.Key) string { return yes(k.Enabled) }},
	{"EXPIRES", func(k api.Key) string { return maybe(k.ExpiresAt, clock) }},
	{"LAST USED", func(k api.Key) string { return maybe(k.LastUsedAt, clock) }},
}

var keyDetails = []column[api.Key]{
	{"CREATED", func(k api.Key) string { return clock(k.CreatedAt) }},
	{"OLD SECRET UNTIL", func(k api.Key) string { return maybe(k.PreviousUntil, clock) }},
}

func newKeys() *cobra.Command {
	r := &remote{}
	cmd := group(&cobra.Command{Use: "keys", Short: "Manage API keys with their roles and queues"})
	r.bind(cmd)
	cmd.AddCommand(
		&cobra.Command{
			Use: "list", Short: "List API keys, without their secrets", Args: cobra.NoArgs,
			RunE: run(r, func(cmd *cobra.Command, c *client.Client, _ []string) ([]api.Key, error) {
				return c.ListKeys(cmd.Context())
			}, func(w io.Writer, all []api.Key) { showList(w, all, keyColumns) }),
		},
		&cobra.Command{
			Use: "get KEY", Aliases: []string{"show"}, Short: "Show an API key, without its secret", Args: cobra.ExactArgs(1),
			RunE: run(r, func(cmd *cobra.Command, c *client.Client, args []string) (api.Key, error) {
				return c.Key(cmd.Context(), args[0])
			}, showKey),
		},
		newKeyCreate(r), newKeySet(r), newKeyRotate(r),
		&cobra.Command{
			Use: "revoke KEY", Short: "Delete an API key, effective immediately", Args: cobra.ExactArgs(1),
			RunE: run(r, func(cmd *cobra.Command, c *client.Client, args []string) (api.Status, error) {
				return done("revoked"), c.RevokeKey(cmd.Context(), args[0], 0)
			}, showStatus),
		},
	)
	return cmd
}

func newKeyCreate(r *remote) *cobra.Command {
	var made edits[api.SetKeyRequest]
	var file secretOut
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Create an API key and print its secret once", Args: cobra.ExactArgs(1),
		RunE: run(r, func(cmd *cobra.Command, c *client.Client, args []string) (api.CreatedKey, error) {
			req := api.SetKeyRequest{CreateKeyRequest: api.CreateKeyRequest{Name: args[0]}}
			made.apply(&req)
			return issue(&file, func() (api.CreatedKey, error) { return c.CreateKey(cmd.Context(), req.CreateKeyRequest) }, createdSecret)
		}, showSecret),
	}
	file.bind(cmd)
	made.bind(cmd, keyFlags...)
	return asksForRoles(cmd, keyRoles)
}

// partialChange explains the flags of commands that change a resource.
const partialChange = "Fields without a flag keep their value; --FLAG " + nothing + " removes a value."

// changedKey builds the request that makes the edits to a key and keeps the rest of it.
func changedKey(was api.Key, made *edits[api.SetKeyRequest]) (req api.SetKeyRequest, err error) {
	text, err := json.Marshal(was)
	if err != nil {
		return req, err
	}
	if err := json.Unmarshal(text, &req); err != nil {
		return req, fmt.Errorf("the existing key: %w", err)
	}
	made.apply(&req)
	return req, nil
}

func newKeySet(r *remote) *cobra.Command {
	var made edits[api.SetKeyRequest]
	cmd := &cobra.Command{
		Use: "set KEY", Short: "Change settings of an API key; the secret stays", Args: cobra.ExactArgs(1),
		Long: "Change settings of an API key; the secret stays. " + partialChange,
		RunE: run(r, func(cmd *cobra.Command, c *client.Client, args []string) (answer api.Key, err error) {
			was, err := c.Key(cmd.Context(), args[0])
			if err != nil {
				return answer, err
			}
			req, err := changedKey(was, &made)
			if err != nil {
				return answer, err
			}
			return c.SetKey(cmd.Context(), args[0], req, was.Version)
		}, showKey),
	}
	made.bind(cmd, append(keyChanges, keyFlags...)...)
	return cmd
}

func newKeyRotate(r *remote) *cobra.Command {
	var made edits[api.RotateRequest]
	var file secretOut
	cmd := &cobra.Command{
		Use: "rotate KEY", Short: "Replace the secret of an API key and print it once", Args: cobra.ExactArgs(1),
		RunE: run(r, func(cmd *cobra.Command, c *client.Client, args []string) (api.CreatedKey, error) {
			var req api.RotateRequest
			made.apply(&req)
			return issue(&file, func() (api.CreatedKey, error) { return c.RotateKey(cmd.Context(), args[0], req) }, createdSecret)
		}, showSecret),
	}
	file.bind(cmd)
	made.bind(cmd, set("overlap", "remaining validity of the old secret; 0s ends it at once (default 1h)", span, func(r *api.RotateRequest) *api.Duration { return &r.Overlap }))
	return cmd
}

func showKey(w io.Writer, k api.Key) {
	showOne(w, k, append(keyColumns[:len(keyColumns):len(keyColumns)], keyDetails...)...)
}

func createdSecret(k *api.CreatedKey) *string { return &k.APIKey }

// showSecret shows a key and its new secret, unless the secret went to a file.
func showSecret(w io.Writer, k api.CreatedKey) {
	showKey(w, k.Key)
	if k.APIKey != "" {
		fmt.Fprintf(w, "API KEY\t%s\n", k.APIKey)
	}
}
