package job

import (
	"fmt"
	"strings"
)

// BatchIDPrefix starts the API form of every batch id. The rest has the form of a job id. Its slot is the
// slot of the queue of the batch's first job, so that the batch's shard is found like a job's.
const BatchIDPrefix = "batch_"

// BatchIDText returns the API form of a batch's id.
func BatchIDText(id ID) string { return BatchIDPrefix + id.String()[len(IDPrefix):] }

// ParseBatchID converts the text of BatchIDText back. It accepts lower case.
func ParseBatchID(s string) (ID, error) {
	text, ok := strings.CutPrefix(s, BatchIDPrefix)
	if ok {
		if id, err := ParseID(IDPrefix + text); err == nil {
			return id, nil
		}
	}
	return ID{}, fmt.Errorf("%q is not a batch id: it starts with %q and %d characters of %s follow", s, BatchIDPrefix, idChars, alphabet)
}
