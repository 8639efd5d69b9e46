package job

import (
	"fmt"
	"strings"
)

// BatchIDPrefix starts every batch id as clients see it. Behind it an id is that of
// a job: its slot is that of the first queue the batch had a job in, so that its
// shard is found as a job's is.
const BatchIDPrefix = "batch_"

// BatchIDText is a batch's id as clients see it.
func BatchIDText(id ID) string { return BatchIDPrefix + id.String()[len(IDPrefix):] }

// ParseBatchID reads what BatchIDText printed; lower case is accepted.
func ParseBatchID(s string) (ID, error) {
	text, ok := strings.CutPrefix(s, BatchIDPrefix)
	if ok {
		if id, err := ParseID(IDPrefix + text); err == nil {
			return id, nil
		}
	}
	return ID{}, fmt.Errorf("%q is not a batch id: it starts with %q and %d characters of %s follow", s, BatchIDPrefix, idChars, alphabet)
}
