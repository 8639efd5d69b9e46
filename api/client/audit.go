package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/corvo/corvo/api"
)

// AuditQuery filters audit records. A zero field does not filter.
type AuditQuery struct {
	Principal, Method string
	Path              string // beginning of the path
	Status            string // such as 403, or 4xx
	After, Before     api.Time
	Order             string // asc or desc (the default)
	Limit             int    // at most 1,000; 0 = 50
	Cursor            string // of the previous page
}

func (q AuditQuery) values() url.Values {
	v := url.Values{}
	for name, text := range map[string]string{
		"principal": q.Principal, "method": q.Method, "path": q.Path, "status": q.Status, "after": string(q.After), "before": string(q.Before),
		"order": q.Order, "cursor": q.Cursor,
	} {
		if text != "" {
			v.Set(name, text)
		}
	}
	if q.Limit != 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	return v
}

// Audit returns a page of the audit log. After is inclusive, Before exclusive.
func (c *Client) Audit(ctx context.Context, q AuditQuery, r Read) (api.AuditPage, error) {
	var out api.AuditPage
	_, err := c.do(ctx, call{method: http.MethodGet, path: "/api/v1/audit-logs" + r.with(q.values()), out: &out, repeat: repeatAlways})
	return out, err
}

// AuditHead returns the present end of the audit log of each shard.
func (c *Client) AuditHead(ctx context.Context, r Read) (api.AuditHeads, error) {
	var out api.AuditHeads
	_, err := c.do(ctx, call{method: http.MethodGet, path: "/api/v1/audit-logs/head" + r.query(), out: &out, repeat: repeatAlways})
	return out, err
}

// ExportAudit calls `each` with every matching audit record, the oldest first. If `each` returns an error,
// ExportAudit stops and returns that error. It ignores Order, Limit and Cursor. It is not retried, and only
// ctx limits its time.
func (c *Client) ExportAudit(ctx context.Context, q AuditQuery, each func(api.AuditRecord) error) error {
	v := AuditQuery{Principal: q.Principal, Method: q.Method, Path: q.Path, Status: q.Status, After: q.After, Before: q.Before}.values()
	v.Set("format", "jsonl")
	return c.stream(ctx, http.MethodGet, "/api/v1/audit-logs?"+v.Encode(), func(r io.Reader) error { return ReadAudit(r, each) })
}

// VerifyAudit reads the whole audit log and recomputes its chains. If a chain breaks, the error names the
// record. Store the result: AuditVerifier.Expect can later check with it that the log still contains the
// verified records.
func (c *Client) VerifyAudit(ctx context.Context) (api.AuditHeads, error) {
	var v api.AuditVerifier
	// A strong read, because the newest records may be on their way to this node.
	heads, err := c.AuditHead(ctx, Read{Strong: true})
	if err != nil {
		return api.AuditHeads{}, err
	}
	v.Expect(heads)
	if err := c.ExportAudit(ctx, AuditQuery{}, v.Add); err != nil {
		return api.AuditHeads{}, err
	}
	if heads, err = c.AuditHead(ctx, Read{}); err == nil {
		err = v.Done(heads)
	}
	return v.Heads(), err
}

// maxAuditLine is the largest line of an export, in bytes.
const maxAuditLine = 1 << 20

// ReadAudit calls `each` with the records of an export in r. If `each` returns an error, ReadAudit stops and
// returns that error. A line of 1 MiB or more is an error.
func ReadAudit(r io.Reader, each func(api.AuditRecord) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxAuditLine)
	for n := 1; lines.Scan(); n++ {
		var record api.AuditRecord
		if err := json.Unmarshal(lines.Bytes(), &record); err != nil {
			return fmt.Errorf("line %d is no audit record: %w", n, err)
		}
		if err := each(record); err != nil {
			return err
		}
	}
	return lines.Err()
}

// stream passes a long response to `read`. It does not retry, and only ctx limits its time.
func (c *Client) stream(ctx context.Context, method, path string, read func(io.Reader) error) (err error) {
	req, err := c.request(ctx, call{method: method, path: path}, nil, "")
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return err // a *url.Error, which names method and URL
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if resp.StatusCode != http.StatusOK {
		return readError(resp)
	}
	return read(resp.Body)
}
