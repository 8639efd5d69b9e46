package api

// Operation is an asynchronous task of the control plane. When the operation of a create is done, the
// created resource can be used.
type Operation struct {
	ID         string          `json:"operation_id"`
	Kind       string          `json:"kind"` // create-namespace or delete-namespace
	Status     string          `json:"status"`
	Message    string          `json:"message,omitempty"` // why a running operation waits
	Error      *OperationError `json:"error,omitempty"`   // of a failed operation
	Resource   ResourceRef     `json:"resource"`
	CreatedAt  Time            `json:"created_at"`
	FinishedAt *Time           `json:"finished_at,omitempty"`
}

// The values of Operation.Status.
const (
	OperationRunning = "running"
	OperationDone    = "done"
	OperationFailed  = "failed"
)

// ResourceRef identifies a resource.
type ResourceRef struct {
	Type string `json:"type"` // namespace
	ID   string `json:"id"`
	Name string `json:"name"`
}

// OperationError is the error of a failed operation.
type OperationError struct {
	Code  Code   `json:"code"`
	Error string `json:"error"`
}
