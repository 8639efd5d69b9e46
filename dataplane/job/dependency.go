package job

import "fmt"

// These are short names of the dependency policies.
const (
	DependencyFail   = DependencyPolicy_DEPENDENCY_POLICY_FAIL
	DependencyHold   = DependencyPolicy_DEPENDENCY_POLICY_HOLD
	DependencyIgnore = DependencyPolicy_DEPENDENCY_POLICY_IGNORE
)

var dependencyWords = [...]string{"fail", "hold", "ignore"}

// Known reports whether the policy is one of those above.
func (p DependencyPolicy) Known() bool { return p >= 0 && int(p) < len(dependencyWords) }

// Word returns the policy as clients write it.
func (p DependencyPolicy) Word() string {
	if !p.Known() {
		return fmt.Sprintf("dependency policy(%d)", int32(p))
	}
	return dependencyWords[p]
}

// ParseDependencyPolicy converts the text of Word back.
func ParseDependencyPolicy(word string) (DependencyPolicy, bool) {
	for p, w := range dependencyWords {
		if w == word {
			return DependencyPolicy(p), true
		}
	}
	return 0, false
}
