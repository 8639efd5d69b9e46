package provider

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// privateState is the data that Terraform stores for a resource without showing it.
type privateState interface {
	GetKey(ctx context.Context, key string) ([]byte, diag.Diagnostics)
	SetKey(ctx context.Context, key string, value []byte) diag.Diagnostics
}

// operationKey is the name in private state for the id of the running operation.
const operationKey = "operation"

// remember stores an operation's id in private state; "" removes it.
func remember(ctx context.Context, private privateState, operation string) diag.Diagnostics {
	return keep(ctx, private, operationKey, operation)
}

func remembered(ctx context.Context, private privateState) (string, diag.Diagnostics) {
	return kept(ctx, private, operationKey)
}

func keep(ctx context.Context, private privateState, key, text string) (diags diag.Diagnostics) {
	if text == "" {
		return private.SetKey(ctx, key, nil)
	}
	value, err := json.Marshal(text)
	if err != nil {
		diags.AddError("Cannot store "+key, err.Error())
		return diags
	}
	return private.SetKey(ctx, key, value)
}

func kept(ctx context.Context, private privateState, key string) (text string, diags diag.Diagnostics) {
	value, diags := private.GetKey(ctx, key)
	if diags.HasError() || len(value) == 0 {
		return "", diags
	}
	if err := json.Unmarshal(value, &text); err != nil {
		diags.AddError("Cannot read the stored "+key, err.Error())
	}
	return text, diags
}

// waiting describes a wait for an operation: its purpose and the receiver of its outcome.
type waiting struct {
	what    string
	fresh   bool // the resource is being created, so an error would taint it
	private privateState
	to      *diag.Diagnostics
}

// await waits for an operation and removes its id once it has succeeded. If it has not, await reports the
// reason and returns false.
func (r *namespaceResource) await(ctx context.Context, cloud *client.Cloud, operation string, limit time.Duration, w waiting) bool {
	timed, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	op, err := cloud.WaitOperation(timed, operation)
	switch {
	case err == nil:
		w.to.Append(remember(ctx, w.private, "")...)
		return true
	case ctx.Err() != nil && w.fresh:
		// An error would taint the namespace, and the next apply would replace it.
		w.to.AddWarning("Interrupted: the namespace is not ready", "Operation "+operation+" continues without Terraform. The next apply waits for it.")
	case ctx.Err() != nil:
		w.to.AddError("Interrupted: cannot "+w.what, "Operation "+operation+" continues without Terraform. The next apply waits for it.")
	case op.Status == api.OperationFailed:
		report(w.to, w.what, err, nil)
	default:
		detail := fmt.Sprintf("Waiting for operation %s, at most %s: %v. The operation goes on; the next apply waits for it again.", operation, limit, err)
		if w.fresh {
			detail += " But Terraform holds a resource whose create failed for tainted and would replace it: say `terraform untaint` before."
		}
		w.to.AddError("Cannot "+w.what, detail)
	}
	return false
}

// newIdempotencyKey makes the idempotency key of one write, so that the client may repeat
// the write if it does not learn the outcome.
func newIdempotencyKey() string {
	var b [16]byte
	rand.Read(b[:]) // never fails, see crypto/rand
	return "terraform-" + hex.EncodeToString(b[:])
}
