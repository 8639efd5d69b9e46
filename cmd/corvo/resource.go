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

// resource is a noun of the API that is declared: all of them are listed, read, set
// and deleted by the same commands. Req is what is sent, Resp what is answered.
type resource[Req, Resp any] struct {
	use, short string // of the command above those
	one, many  string // its names for people
	arg        string // how the command line names one

	list   func(c *client.Client, ctx context.Context, r client.Read) ([]Resp, error)
	get    func(c *client.Client, ctx context.Context, id string, r client.Read) (Resp, error)
	create func(c *client.Client, ctx context.Context, req Req) (Resp, error)
	put    func(c *client.Client, ctx context.Context, id string, req Req, version int64) (Resp, error)
	remove func(c *client.Client, ctx context.Context, id string, version int64) error

	version func(*Resp) int64
	flags   []edit[Req]
	columns []column[Resp] // of the list
	details []column[Resp] // of one, besides

	// begin has a request speak of the one that an argument names. The argument is the
	// id of those that clients name, and else what makes a new one: a name, a URL.
	begin func(req *Req, arg string) error

	// The rest may be nil.

	// prefix begins the ids that the server gives, empty where clients name theirs. A
	// name in place of an id is looked up where there are names.
	prefix  string
	named   func(Resp) (id, name string)
	makes   string      // the argument of create, where there is a prefix
	renames []edit[Req] // flags that only what is there already needs
	// again has a request say what the answer says in other words.
	again func(Resp, *Req)
	// more shows what does not fit into lines.
	more func(io.Writer, Resp)
}

// command is the noun's command. more makes those that only it has.
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

// on is a command about one resource.
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

// id is the id of the resource that an argument names.
func (n *resource[Req, Resp]) id(ctx context.Context, c *client.Client, arg string) (string, error) {
	if n.prefix == "" {
		return arg, n.begin(new(Req), arg)
	}
	if n.named == nil || strings.HasPrefix(arg, n.prefix) {
		return arg, nil
	}
	// What was just created has its name here too.
	all, err := n.list(c, ctx, client.Read{Strong: true})
	if err != nil {
		return "", err
	}
	return idOf(all, arg, n.one, n.use, n.named)
}

// idOf is the id of the one of a list that has a name.
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

// article is a noun with its article: an alert rule.
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

// setting is the command that changes what is there. What no flag says stays, so that
// nobody has to repeat all of a budget to raise one limit; the version that was read
// has what somebody else changes meanwhile refuse it.
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

// asked is the request that would be answered like this: answers have all the fields
// of requests, and more.
func (n *resource[Req, Resp]) asked(was Resp, req *Req) error {
	if err := asRequest(was, req); err != nil {
		return fmt.Errorf("the existing %s: %w", n.one, err)
	}
	if n.again != nil {
		n.again(was, req)
	}
	return nil
}

// asRequest fills a request with what an answer says in the same words.
func asRequest(answer, req any) error {
	text, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, req)
}
