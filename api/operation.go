package api

// Operation is work of the control plane that takes its time. When one that
// creates something is done, what it created works.
type Operation struct {
	ID         string          `json:"operation_id"`
	Kind       string          `json:"kind"` // create-namespace or delete-namespace
	Status     string          `json:"status"`
	Message    string          `json:"message,omitempty"` // what a running one waits for
	Error      *OperationError `json:"error,omitempty"`   // why a failed one did
	Resource   ResourceRef     `json:"resource"`
	CreatedAt  Time            `json:"created_at"`
	FinishedAt *Time           `json:"finished_at,omitempty"`
}

// The words of Operation.Status.
const (
	OperationRunning = "running"
	OperationDone    = "done"
	OperationFailed  = "failed"
)

// ResourceRef names a resource.
type ResourceRef struct {
	Type string `json:"type"` // namespace
	ID   string `json:"id"`
	Name string `json:"name"`
}

// OperationError is why an operation failed.
type OperationError struct {
	Code  Code   `json:"code"`
	Error string `json:"error"`
}
