package op

import (
	"fmt"

	"github.com/corvo/corvo/api"
)

// refuse returns the refusal of one item of an op with several items.
func refuse(code api.Code, format string, args ...any) *Refusal {
	return &Refusal{Code: string(code), Message: fmt.Sprintf(format, args...)}
}

// Err returns the refusal as an *api.Error. It returns nil if r is nil or has no code, because the item was then
// done.
func (r *Refusal) Err() error {
	if r.GetCode() == "" {
		return nil
	}
	return api.Errorf(api.Code(r.Code), "%s", r.Message)
}
