package client

import (
	"context"
	"io"
	"net/http"
)

// Backup passes a backup of the node's namespace to `read`: all state, with payloads and the hashes of keys.
// The bytes are a file for `corvo admin restore`, which detects a truncated file. With anyNode the node sends
// its present state without asking the leader, because the node may be all that is left of a cluster. The
// error is CONFLICT while the node sends another backup, and UNSUPPORTED in the cloud. Backup is not retried,
// and only ctx limits its time.
func (c *Client) Backup(ctx context.Context, anyNode bool, read func(io.Reader) error) error {
	path := "/api/v1/admin/backup"
	if anyNode {
		path += "?consistency=eventual"
	}
	return c.stream(ctx, http.MethodPost, path, read)
}
