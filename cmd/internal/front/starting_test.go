package front

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/corvo/corvo/api"
)

// TestAProcessThatStartsIsAliveAndNotReady checks that a process that looks for its cluster is alive but refuses
// requests.
func TestAProcessThatStartsIsAliveAndNotReady(t *testing.T) {
	t.Parallel()
	starting := &Starting{}
	starting.Drain() // nothing is open yet
	for path, want := range map[string]int{"/healthz": http.StatusOK, "/readyz": http.StatusServiceUnavailable, "/api/v1/enqueue": http.StatusServiceUnavailable, "/": http.StatusServiceUnavailable} {
		res := httptest.NewRecorder()
		starting.ServeHTTP(res, httptest.NewRequest(http.MethodGet, path, nil))
		if res.Code != want || (res.Header().Get("Retry-After") == "1") != (want != http.StatusOK) {
			t.Errorf("%s: %d, %v", path, res.Code, res.Header())
		}
		var body struct {
			Code    api.Code       `json:"code"`
			Status  string         `json:"status"`
			Details map[string]any `json:"details"`
		}
		if err := json.Unmarshal(res.Body.Bytes(), &body); err != nil || (body.Code == api.LeaderUnavailable) != (want != http.StatusOK) || (body.Details[api.DetailUnchanged] == true) != (want != http.StatusOK) {
			t.Errorf("%s: %s, %v", path, res.Body, err)
		}
	}
}
