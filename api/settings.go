package api

// The treatment of a model without a known price.
const (
	UnknownModelCeiling = "ceiling" // its tokens cost the highest known price; the default
	UnknownModelHold    = "hold"    // as ceiling, and a job that names such a model is held before it runs
)

// Settings are the settings of the namespace. A PUT replaces all of them; an absent field gets its
// default.
type Settings struct {
	Retention    QueueRetention `json:"retention"` // of jobs in queues without a retention
	UnknownModel string         `json:"unknown_model"`
}
