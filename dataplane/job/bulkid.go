package job

import (
	"fmt"
	"strings"
)

// BulkIDPrefix starts the id of every bulk operation as clients see it.
const BulkIDPrefix = "bulk_"

// BulkIDText is a bulk operation's id as clients see it.
func BulkIDText(id ID) string { return BulkIDPrefix + id.String()[len(IDPrefix):] }

// ParseBulkID reads what BulkIDText printed; lower case is accepted.
func ParseBulkID(s string) (ID, error) {
	text, ok := strings.CutPrefix(s, BulkIDPrefix)
	if ok {
		if id, err := ParseID(IDPrefix + text); err == nil {
			return id, nil
		}
	}
	return ID{}, fmt.Errorf("%q is not the id of a bulk operation: it starts with %q and %d characters of %s follow", s, BulkIDPrefix, idChars, alphabet)
}
