package server

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/controlplane/store"
)

// checkAudit recomputes the hash chains of the audit log over one page of rows. The cursor carries the hashes
// of the page's last rows, so that the next page detects rows that were rewritten with new hashes between the
// two requests.
func (s *Server) checkAudit(w http.ResponseWriter, r *http.Request) error {
	if _, err := s.begin(r, nil); err != nil {
		return err
	}
	const list = "audit check"
	limit, text, err := pageOf(r, list)
	if err != nil {
		return err
	}
	var after store.AuditPosition
	if text != "" {
		if after, err = parseAuditPosition(text); err != nil {
			return api.Errorf(api.ValidationError, "cursor: it does not belong to this list")
		}
	}
	check, err := s.store.CheckAudit(r.Context(), after, limit)
	if err != nil {
		return err
	}
	out := api.AuditCheck{
		Verified: check.Last.Seq, Hash: hex.EncodeToString(check.Last.Hash), RefusedHash: hex.EncodeToString(check.Last.RefusedHash), Removed: check.Removed,
	}
	if check.Broken != nil {
		out.Broken = &api.AuditBreak{Seq: check.Broken.Seq, Error: check.Broken.Error()}
	}
	if check.More {
		if out.Cursor, err = cursorAfter(list, auditPositionText(check.Last)); err != nil {
			return err
		}
	}
	return serve.WriteJSON(w, http.StatusOK, out)
}

func auditPositionText(p store.AuditPosition) string {
	return fmt.Sprintf("%d %x %x", p.Seq, p.Hash, p.RefusedHash)
}

// parseAuditPosition parses the output of auditPositionText.
func parseAuditPosition(text string) (p store.AuditPosition, err error) {
	_, err = fmt.Sscanf(text, "%d %x %x", &p.Seq, &p.Hash, &p.RefusedHash)
	if err == nil && (p.Seq < 1 || len(p.Hash) != sha256.Size || len(p.RefusedHash) != sha256.Size) {
		err = fmt.Errorf("%q is not a position in the audit log", text)
	}
	return p, err
}
