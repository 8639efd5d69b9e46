package view

import (
	"database/sql"
	"fmt"
	"strings"

	"github.com/corvo/corvo/dataplane/job"
)

// The prefixes of ids that have the form of a job's id but name something else.
const (
	batchPrefix    = "batch_"
	chainPrefix    = "chain_"
	schedulePrefix = "sched_"
)

// idText converts an id to the text that clients see, or to NULL if there is no id.
func idText(prefix string, id []byte) (any, error) {
	if len(id) == 0 {
		return nil, nil
	}
	known, err := job.IDFromBytes(id)
	if err != nil {
		return nil, fmt.Errorf("%s...: %w", prefix, err)
	}
	return idWord(prefix, known), nil
}

func idWord(prefix string, id job.ID) string {
	return prefix + strings.TrimPrefix(id.String(), job.IDPrefix)
}

// fromIDText parses the text that idText wrote.
func fromIDText(prefix string, text sql.NullString) ([]byte, error) {
	if !text.Valid {
		return nil, nil
	}
	id, err := job.ParseID(job.IDPrefix + strings.TrimPrefix(text.String, prefix))
	return id[:], err
}
