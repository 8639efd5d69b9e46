package server_test

import (
	"bytes"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/dataplane/server"
)

// An incomplete message ends its stream and gives back the bytes that it took from the node's budget.
func TestAHalfSentFrameEndsItsStream(t *testing.T) {
	t.Parallel()
	n := startNode(t, func(c *server.Config) { c.MessageWait = 50 * time.Millisecond })
	body, write := io.Pipe()
	defer write.Close()
	r, err := http.NewRequestWithContext(t.Context(), "POST", n.rpcFront()+"/corvo.v1.WorkerService/StreamLifecycle", body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/grpc+proto")
	r.Header.Set("Authorization", "Bearer "+n.admin)
	h2c := new(http.Protocols)
	h2c.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: h2c}
	defer transport.CloseIdleConnections()
	go func() { _, _ = write.Write(append([]byte{0, 0, 0, 1, 0}, bytes.Repeat([]byte{0}, 100)...)) }() // the header announces 256 bytes
	a, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	if rest, err := io.ReadAll(a.Body); err != nil || len(rest) > 0 {
		t.Errorf("answered %q, %v", rest, err)
	}
	if status := a.Trailer.Get("Grpc-Status"); status != "3" {
		t.Errorf("the stream ended with %q: %s", status, a.Trailer.Get("Grpc-Message"))
	}
	eventually(t, "nothing is in hand", func() bool { return n.server.BodyBytes() == 0 })
}

// A gateway that shuts down ends a stream even in the middle of a message. The client is asked to open
// another stream, and does not get an error about its message.
func TestADrainInTheMiddleOfAFrame(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	h2c := new(http.Protocols)
	h2c.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: h2c}
	defer transport.CloseIdleConnections()
	for drain, want := range map[string]string{"true": "14", "": "3"} {
		begun := append([]byte{0, 0, 0, 1, 0}, bytes.Repeat([]byte{0}, 100)...) // the header announces 256 bytes
		r, err := http.NewRequestWithContext(t.Context(), "POST", n.rpcFront()+"/corvo.v1.WorkerService/StreamLifecycle", io.NopCloser(bytes.NewReader(begun)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/grpc+proto")
		r.Header.Set("Authorization", "Bearer "+n.admin)
		r.Trailer = http.Header{fleet.DrainTrailer: {drain}}
		a, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		rest, err := io.ReadAll(a.Body)
		a.Body.Close()
		status := a.Trailer.Get("Grpc-Status") + a.Header.Get("Grpc-Status") // in the header if there is no other answer
		if err != nil || len(rest) > 0 || status != want {
			t.Errorf("drain %q: answered %q, %v, status %q, want %s", drain, rest, err, status, want)
		}
	}
}
