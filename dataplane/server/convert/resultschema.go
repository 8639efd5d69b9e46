package convert

import (
	"encoding/json"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/server/resultschema"
)

// resultSchema converts the schema that a job's result must match. It refuses a schema that this server
// cannot check.
func resultSchema(f *Faults, raw json.RawMessage) *job.Blob {
	schema := blob(f, "result_schema", raw, job.MaxResultSchema)
	if schema == nil {
		return nil
	}
	if _, err := resultschema.Compile(schema.Data); err != nil {
		f.Invalid("result_schema", "%v", err)
	}
	return schema
}

// MismatchText returns the error text of an attempt whose result does not match its schema: the first
// mismatch. all must not be empty.
func MismatchText(all []resultschema.Mismatch) string {
	return "result does not match its schema: " + all[0].String()
}

// ToMismatch returns the details of RESULT_MISMATCH: the mismatches, the number of further ones, and the
// job's new state and attempts.
func ToMismatch(all []resultschema.Mismatch, more int, became *op.Failed) map[string]any {
	details := map[string]any{
		"mismatches":         all,
		"status":             became.State.Word(),
		"attempt":            became.Attempt,
		"attempts_remaining": became.AttemptsRemaining,
	}
	if more > 0 {
		details["more"] = more
	}
	if next := timeOf(became.NextAttemptNs); next != "" {
		details["next_attempt_at"] = next
	}
	return details
}
