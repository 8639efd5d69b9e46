package view

import (
	"encoding/json"

	"github.com/corvo/corvo/dataplane/job"
)

// fromList is the set of a list's values. A list of any length is one parameter, a JSON array.
const fromList = "(SELECT value FROM json_each(?))"

func list[T any](values []T) (string, error) {
	text, err := json.Marshal(values)
	return string(text), err
}

func stateWords(states []job.State) []string {
	all := make([]string, len(states))
	for i, s := range states {
		all[i] = s.Word()
	}
	return all
}
