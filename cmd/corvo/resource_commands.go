package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// resource is a declared noun of the API. The same commands list, read, set and delete all nouns. Req is the
// request, Resp the answer.
type resource[Req, Resp any] struct {
	use, short string // of the group command
	one, many  string // its names for people
	arg        string // its name in the usage

	list   func(c *client.Client, ctx context.Context, r client.Read) ([]Resp, error)
	get    func(c *client.Client, ctx context.Context, id string, r client.Read) (Resp, error)
	create func(c *client.Client, ctx context.Context, req Req) (Resp, error)
	put    func(c *client.Client, ctx context.Context, id string, req Req, version int64) (Resp, error)
	remove func(c *client.Client, ctx context.Context, id string, version int64) error

	version func(*Resp) int64
	flags   []edit[Req]
	columns []column[Resp] // of the list
	details []column[Resp] // added when one is shown

	// begin fills a request with an argument: the id of a noun whose ids clients choose, else the value that
	// creates one, such as a name or a URL.
	begin func(req *Req, arg string) error

	// The following fields may be nil.

	// prefix starts the ids that the server assigns; it is empty if clients choose the ids. An argument
	// without it is a name, if the noun has names.
	prefix  string
	named   func(Resp) (id, name string)
	makes   string      // the argument of create, if prefix is set
	renames []edit[Req] // flags for existing resources only
	// again converts those fields of an answer whose form differs in the request.
	again func(Resp, *Req)
	// more shows the parts that do not fit into lines.
	more func(io.Writer, Resp)
}

// command makes the noun's commands. more makes those that only this noun has.
func (n *resource[Req, Resp]) command(more ...func(*remote) *cobra.Command) *cobra.Command {
	r := &remote{}
	cmd := group(&cobra.Command{Use: n.use, Short: n.short})
	if n.named != nil {
		cmd.Long = n.short + ". " + n.arg + " is an id or a name."
	}
	r.bind(cmd)
	cmd.AddCommand(
		&cobra.Command{
			Use: "list", Short: "List " + n.many, Args: cobra.NoArgs,
			RunE: run(r, func(cmd *cobra.Command, c *client.Client, _ []string) ([]Resp, error) {
				return n.list(c, cmd.Context(), client.Read{})
			}, func(w io.Writer, all []Resp) { showList(w, all, n.columns) }),
		},
		on(n, r, "get", "Show "+article(n.one), func(ctx context.Context, c *client.Client, id string) (Resp, error) {
			return n.get(c, ctx, id, client.Read{})
		}, n.show),
		on(n, r, "delete", "Delete "+article(n.one), func(ctx context.Context, c *client.Client, id string) (api.Status, error) {
			return done("deleted"), n.remove(c, ctx, id, 0)
		}, showStatus),
	)
	if n.prefix == "" {
		cmd.AddCommand(n.setting(r, "set", "Change or create "+article(n.one), n.flags))
	} else {
		cmd.AddCommand(n.creating(r), n.setting(r, "update", "Change "+article(n.one), append(n.flags, n.renames...)))
	}
	for _, command := range more {
		cmd.AddCommand(command(r))
	}
	return cmd
}

func (n *resource[Req, Resp]) show(w io.Writer, one Resp) {
	showOne(w, one, append(n.columns[:len(n.columns):len(n.columns)], n.details...)...)
	if n.more != nil {
		n.more(w, one)
	}
}

// on makes a command about one resource.
func on[Req, Resp, A any](n *resource[Req, Resp], r *remote, verb, short string, ask func(ctx context.Context, c *client.Client, id string) (A, error), show func(io.Writer, A)) *cobra.Command {
	return &cobra.Command{
		Use: verb + " " + n.arg, Short: short, Args: cobra.ExactArgs(1),
		RunE: run(r, func(cmd *cobra.Command, c *client.Client, args []string) (answer A, err error) {
			id, err := n.id(cmd.Context(), c, args[0])
			if err != nil {
				return answer, err
			}
			return ask(cmd.Context(), c, id)
		}, show),
	}
}

// id returns the id of the resource that an argument names.
func (n *resource[Req, Resp]) id(ctx context.Context, c *client.Client, arg string) (string, error) {
	if n.prefix == "" {
		return arg, n.begin(new(Req), arg)
	}
	if n.named == nil || strings.HasPrefix(arg, n.prefix) {
		return arg, nil
	}
	// Read strongly, so that a resource created just before has its name.
	all, err := n.list(c, ctx, client.Read{Strong: true})
	if err != nil {
		return "", err
	}
	return idOf(all, arg, n.one, n.use, n.named)
}

// idOf returns the id of the element with a name.
func idOf[A any](all []A, name, one, command string, named func(A) (id, name string)) (found string, err error) {
	for _, a := range all {
		switch id, is := named(a); {
		case is != name:
		case found == "":
			found = id
		default:
			return "", misusef("more than one %s is named %q: give the id, which corvo %s list shows", one, name, command)
		}
	}
	if found == "" {
		return "", api.Errorf(api.NotFound, "no %s is named %q: corvo %s list shows the names", one, name, command)
	}
	return found, nil
}

// article returns a noun with its article, such as "an alert rule".
func article(noun string) string {
	if strings.ContainsRune("aeioAEIO", rune(noun[0])) {
		return "an " + noun
	}
	return "a " + noun
}

func (n *resource[Req, Resp]) creating(r *remote) *cobra.Command {
	cmd := &cobra.Command{Use: "create " + n.makes, Short: "Create " + article(n.one), Args: cobra.ExactArgs(1)}
	var made edits[Req]
	made.bind(cmd, n.flags...)
	cmd.RunE = run(r, func(cmd *cobra.Command, c *client.Client, args []string) (answer Resp, err error) {
		var req Req
		if err := n.begin(&req, args[0]); err != nil {
			return answer, err
		}
		made.apply(&req)
		return n.create(c, cmd.Context(), req)
	}, n.show)
	return cmd
}

// setting makes the command that changes a resource. If clients choose the ids of the kind and no resource
// has the id, the command creates it. Fields without a flag keep their value, so that nobody repeats a whole
// budget to raise one limit. The request names the version that was read, so that the server refuses it after
// a concurrent change.
func (n *resource[Req, Resp]) setting(r *remote, verb, short string, flags []edit[Req]) *cobra.Command {
	var made edits[Req]
	cmd := on(n, r, verb, short, func(ctx context.Context, c *client.Client, id string) (answer Resp, err error) {
		var req Req
		was, err := n.get(c, ctx, id, client.Read{Strong: true})
		if n.prefix == "" && api.CodeOf(err) == api.NotFound {
			if err := n.begin(&req, id); err != nil {
				return answer, err
			}
			made.apply(&req)
			return n.create(c, ctx, req)
		}
		if err != nil {
			return answer, err
		}
		if err := n.asked(was, &req); err != nil {
			return answer, err
		}
		made.apply(&req)
		return n.put(c, ctx, id, req, n.version(&was))
	}, n.show)
	cmd.Long = short + ". " + partialChange
	made.bind(cmd, flags...)
	return cmd
}

// asked converts an answer to the request that would produce it, because answers have all the fields of
// requests and more.
func (n *resource[Req, Resp]) asked(was Resp, req *Req) error {
	if err := asRequest(was, req); err != nil {
		return fmt.Errorf("the existing %s: %w", n.one, err)
	}
	if n.again != nil {
		n.again(was, req)
	}
	return nil
}

// asRequest copies the fields of an answer that a request has under the same names.
func asRequest(answer, req any) error {
	text, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, req)
}
