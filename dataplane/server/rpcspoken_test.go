package server

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/corvo/corvo/api/rpc"
)

// Who speaks no protocol of a procedure is told which there are.
func TestRPCSaysWhatItSpeaks(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	url := n.rpcFront()
	plain := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(plain.CloseIdleConnections)
	for _, c := range []struct {
		client                *http.Client
		procedure, kind, says string
		status                int
	}{
		{plain, "Enqueue", "text/xml", "application/json", 415},
		{plain, "Enqueue", "", "application/grpc-web+proto", 415},
		{h2c(t), "Enqueue", "application/x-www-form-urlencoded", "application/proto", 415},
		{h2c(t), "StreamLifecycle", "application/json", "application/connect+json", 415},
		{plain, "StreamLifecycle", "application/connect+json", "needs HTTP/2", 505},
	} {
		r, err := http.NewRequestWithContext(t.Context(), "POST", url+rpc.Prefix+c.procedure, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+n.admin)
		if c.kind != "" {
			r.Header.Set("Content-Type", c.kind)
		}
		a, err := c.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(a.Body)
		a.Body.Close()
		var told struct{ Code, Message string }
		if err != nil || json.Unmarshal(body, &told) != nil || told.Code != "unimplemented" || !strings.Contains(told.Message, c.says) {
			t.Errorf("%s with %q: %s, %v, want %q", c.procedure, c.kind, body, err, c.says)
		}
		if a.StatusCode != c.status || a.Header.Get("Content-Type") != "application/json" || a.Header.Get(rpc.CodeHeader) != "UNSUPPORTED" {
			t.Errorf("%s with %q: %d %v", c.procedure, c.kind, a.StatusCode, a.Header)
		}
	}
}
