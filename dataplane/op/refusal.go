package op

import (
	"fmt"

	"github.com/corvo/corvo/api"
)

// refuse is why one item of a plural op is not done.
func refuse(code api.Code, format string, args ...any) *Refusal {
	return &Refusal{Code: string(code), Message: fmt.Sprintf(format, args...)}
}

// Err is the refusal as an error; nil for an item that was done.
func (r *Refusal) Err() error {
	if r.GetCode() == "" {
		return nil
	}
	return api.Errorf(api.Code(r.Code), "%s", r.Message)
}
