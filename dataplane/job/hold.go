package job

import "fmt"

// Word returns the cause of a hold as clients write it.
func (h Hold) Word() string {
	switch h {
	case Hold_HOLD_REQUEST:
		return "request"
	case Hold_HOLD_AGENT:
		return "agent"
	case Hold_HOLD_MAX_ITERATIONS:
		return "max_iterations"
	case Hold_HOLD_MAX_COST:
		return "max_cost"
	case Hold_HOLD_BUDGET:
		return "budget"
	case Hold_HOLD_POLICY:
		return "policy"
	case Hold_HOLD_DEPENDENCY:
		return "dependency"
	}
	return fmt.Sprintf("hold(%d)", int32(h))
}
