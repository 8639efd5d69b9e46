package api

// What is done about a model that no price is known of.
const (
	UnknownModelCeiling = "ceiling" // it is charged at the dearest price there is; the default
	UnknownModelHold    = "hold"    // and a job that says it will use one is held before it runs
)

// Settings are what an operator has decided for the namespace. PUT replaces all of
// them: what it leaves out has its default.
type Settings struct {
	Retention    QueueRetention `json:"retention"` // of jobs in queues that say nothing
	UnknownModel string         `json:"unknown_model"`
}
