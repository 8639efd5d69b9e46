package job

import (
	"fmt"
	"strings"
)

// BulkIDPrefix starts the API form of every bulk operation's id.
const BulkIDPrefix = "bulk_"

// BulkIDText returns the API form of a bulk operation's id.
func BulkIDText(id ID) string { return BulkIDPrefix + id.String()[len(IDPrefix):] }

// ParseBulkID converts the text of BulkIDText back. It accepts lower case.
func ParseBulkID(s string) (ID, error) {
	text, ok := strings.CutPrefix(s, BulkIDPrefix)
	if ok {
		if id, err := ParseID(IDPrefix + text); err == nil {
			return id, nil
		}
	}
	return ID{}, fmt.Errorf("%q is not the id of a bulk operation: it starts with %q and %d characters of %s follow", s, BulkIDPrefix, idChars, alphabet)
}
