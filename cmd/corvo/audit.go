package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// newAudit makes the `admin audit` commands; the command above binds r's flags.
func newAudit(r *remote) *cobra.Command {
	cmd := group(&cobra.Command{Use: "audit", Short: "Read and verify the audit log"})
	cmd.AddCommand(auditList(r), auditExport(r), auditVerify(r))
	return cmd
}

// auditFlags returns the flags that filter audit records.
func auditFlags() []edit[client.AuditQuery] {
	return []edit[client.AuditQuery]{
		set("principal", "id of the API key that made the request", words, func(q *client.AuditQuery) *string { return &q.Principal }),
		set("method", "HTTP method, such as POST", words, func(q *client.AuditQuery) *string { return &q.Method }),
		set("path", "prefix of the request path", words, func(q *client.AuditQuery) *string { return &q.Path }),
		set("status", "HTTP status, such as 403, or a class, such as 4xx", words, func(q *client.AuditQuery) *string { return &q.Status }),
		set("after", "earliest time (inclusive), such as 2026-11-01T00:00:00Z", instant, func(q *client.AuditQuery) *api.Time { return &q.After }),
		set("before", "latest time (exclusive)", instant, func(q *client.AuditQuery) *api.Time { return &q.Before }),
	}
}

func auditList(r *remote) *cobra.Command {
	var made edits[client.AuditQuery]
	var q client.AuditQuery
	cmd := &cobra.Command{
		Use: "list", Short: "List audit records, newest first", Args: cobra.NoArgs,
		RunE: run(r, func(cmd *cobra.Command, c *client.Client, _ []string) (api.AuditPage, error) {
			made.apply(&q)
			return c.Audit(cmd.Context(), q, client.Read{})
		}, showAudit),
	}
	made.bind(cmd, auditFlags()...)
	cmd.Flags().StringVar(&q.Order, "order", "", "order by time: desc or asc (default desc)")
	cmd.Flags().IntVar(&q.Limit, "limit", 0, "number of records on a page, at most 1000 (default 50)")
	cmd.Flags().StringVar(&q.Cursor, "cursor", "", "cursor of the next page, from the answer before")
	return cmd
}

func showAudit(w io.Writer, p api.AuditPage) {
	showList(w, p.Records, []column[api.AuditRecord]{
		{"SHARD", func(r api.AuditRecord) string { return strconv.FormatUint(uint64(r.Shard), 10) }},
		{"SEQ", func(r api.AuditRecord) string { return strconv.FormatUint(r.Seq, 10) }},
		{"AT", func(r api.AuditRecord) string { return clock(r.At) }},
		{"PRINCIPAL", func(r api.AuditRecord) string { return r.Principal }},
		{"ROLE", func(r api.AuditRecord) string { return r.Role }},
		{"METHOD", func(r api.AuditRecord) string { return r.Method }},
		{"PATH", func(r api.AuditRecord) string { return r.Path }},
		{"STATUS", func(r api.AuditRecord) string { return strconv.Itoa(r.Status) }},
		{"OP", func(r api.AuditRecord) string { return r.Op }},
		{"COUNT", func(r api.AuditRecord) string { return strconv.FormatUint(r.Count, 10) }},
		{"REMOTE", func(r api.AuditRecord) string { return r.Remote }},
	})
	if p.Cursor != "" {
		fmt.Fprintf(w, "\nmore records: --cursor %s\n", p.Cursor)
	}
}

func auditExport(r *remote) *cobra.Command {
	var made edits[client.AuditQuery]
	cmd := &cobra.Command{
		Use: "export", Short: "Print all matching records as JSON lines, oldest first", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := r.client()
			if err != nil {
				return err
			}
			defer c.Close()
			var q client.AuditQuery
			made.apply(&q)
			out := json.NewEncoder(cmd.OutOrStdout())
			out.SetEscapeHTML(false)
			return c.ExportAudit(cmd.Context(), q, func(record api.AuditRecord) error { return out.Encode(record) })
		},
	}
	made.bind(cmd, auditFlags()...)
	return cmd
}

func auditVerify(r *remote) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "verify", Short: "Verify the hash chains of the audit log or of an export", Args: cobra.NoArgs,
		Long: "Verify the hash chains of the audit log or of an export. The exit code is 1 if a chain is broken; the error says\n" +
			"where. Keep the printed hash of each shard elsewhere: a rewritten log is consistent, but its hash differs.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			heads, err := verifyAudit(cmd, r, file)
			if err != nil {
				return err
			}
			return tell(r, cmd, heads, showAuditHeads)
		},
	}
	cmd.Flags().StringVar(&file, "file", "", "file with an export of all records, - for stdin (default: the node's log)")
	return cmd
}

func verifyAudit(cmd *cobra.Command, r *remote, file string) (api.AuditHeads, error) {
	if file == "" {
		c, err := r.client()
		if err != nil {
			return api.AuditHeads{}, err
		}
		defer c.Close()
		return c.VerifyAudit(cmd.Context())
	}
	in := cmd.InOrStdin()
	if file != "-" {
		opened, err := os.Open(file)
		if err != nil {
			return api.AuditHeads{}, err
		}
		defer opened.Close()
		in = opened
	}
	var v api.AuditVerifier
	err := client.ReadAudit(in, v.Add)
	return v.Heads(), err
}

func showAuditHeads(w io.Writer, heads api.AuditHeads) {
	fmt.Fprintln(w, "SHARD\tRECORDS\tFROM\tTO\tHASH")
	for _, h := range heads.Shards {
		fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%s\n", h.Shard, h.NextSeq-h.FirstSeq, h.FirstSeq, h.NextSeq-1, h.Hash)
	}
	fmt.Fprintln(w, "the hash chains are intact")
}
