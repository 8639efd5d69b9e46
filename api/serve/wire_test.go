package serve

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
)

// The tests of this file use a real connection, because they depend on the writer and reader of net/http.

func listen(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// size is a route that responds with the size of its body.
func size(max int64) Route {
	return Route{Method: "POST", Path: "/size", Permission: Open, MaxBody: max, Handler: func(w http.ResponseWriter, r *http.Request) error {
		body, err := ReadBody(r)
		if err != nil {
			return err
		}
		return WriteJSON(w, http.StatusOK, len(body))
	}}
}

// send posts a body, with Content-Length if sized and else in chunks.
func send(t *testing.T, url string, body []byte, sized bool) (status int, answer string) {
	t.Helper()
	var r io.Reader = bytes.NewReader(body)
	if !sized {
		r = io.MultiReader(r)
	}
	w, err := http.Post(url, "", r)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Body.Close()
	text, err := io.ReadAll(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.StatusCode, strings.TrimSpace(string(text))
}

func TestBodyLimit(t *testing.T) {
	t.Parallel()
	const limit = 100_000 // more than a buffer that is kept
	s := listen(t, newNode(t, size(limit)))
	for _, sized := range []bool{true, false} {
		for _, n := range []int{0, 1, 511, 512, 513, keepBuffer, keepBuffer + 1, limit - 1, limit} {
			if status, text := send(t, s.URL+"/size", make([]byte, n), sized); status != 200 || text != fmt.Sprint(n) {
				t.Errorf("%d bytes, sized %v: %d %s", n, sized, status, text)
			}
		}
		status, text := send(t, s.URL+"/size", make([]byte, limit+1), sized)
		if status != 413 || !strings.Contains(text, `"code":"PAYLOAD_TOO_LARGE"`) || !strings.Contains(text, `"max_bytes":100000`) {
			t.Errorf("a byte too much, sized %v: %d %s", sized, status, text)
		}
	}
}

// TestDefaultBodyLimit checks the limit of rows without a MaxBody.
func TestDefaultBodyLimit(t *testing.T) {
	t.Parallel()
	n := newNode(t, size(0)) // of a server with MaxBody 1000
	if w := n.do("POST", "/size", strings.Repeat("x", 1000)); w.Code != 200 {
		t.Errorf("1000 bytes: %d %s", w.Code, w.Body)
	}
	wantProblem(t, n.do("POST", "/size", strings.Repeat("x", 1001)), api.PayloadTooLarge)
}

// dial opens a connection and writes text to it.
func dial(t *testing.T, s *httptest.Server, text string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	return c
}

func readAnswer(t *testing.T, c net.Conn, method string) (status int, header http.Header, body string) {
	t.Helper()
	w, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Body.Close()
	text, err := io.ReadAll(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.StatusCode, w.Header, string(text)
}

// TestHugeBodyIsRefusedUnread announces a body of 1 TB and sends none of it.
func TestHugeBodyIsRefusedUnread(t *testing.T) {
	t.Parallel()
	s := listen(t, newNode(t, size(1000)))
	c := dial(t, s, "POST /size HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1000000000000\r\n\r\n")
	if status, _, body := readAnswer(t, c, "POST"); status != 413 {
		t.Errorf("answer is %d %s", status, body)
	}
}

func TestSlowBody(t *testing.T) {
	t.Parallel()
	h, err := New(Config{Routes: []Route{size(1000)}, BodyTimeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	s := listen(t, h)
	c := dial(t, s, "POST /size HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12345")
	status, _, body := readAnswer(t, c, "POST")
	if status != 400 || !strings.Contains(body, "PARSE_ERROR") || !strings.Contains(body, "did not arrive within 50ms") {
		t.Errorf("answer is %d %s", status, body)
	}
}

// TestUnreadSlowBody refuses a request whose body the handler never reads. net/http reads it before it
// sends the response, and without a deadline it would wait for ever.
func TestUnreadSlowBody(t *testing.T) {
	t.Parallel()
	h, err := New(Config{BodyTimeout: 50 * time.Millisecond, Routes: []Route{post("/{$}", refuse(api.Errorf(api.Unauthorized, "no")))}})
	if err != nil {
		t.Fatal(err)
	}
	s := listen(t, h)
	for path, want := range map[string]int{"/": 401, "/missing": 404} {
		c := dial(t, s, "POST "+path+" HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12345")
		if status, _, body := readAnswer(t, c, "POST"); status != want {
			t.Errorf("POST %s: %d %s, want %d", path, status, body, want)
		}
	}
}

// TestBodyTimeoutEndsWithTheBody checks that a handler may run for longer than the body may take, and
// keeps its context.
func TestBodyTimeoutEndsWithTheBody(t *testing.T) {
	t.Parallel()
	const timeout = 100 * time.Millisecond
	h, err := New(Config{BodyTimeout: timeout, Routes: []Route{post("/", func(w http.ResponseWriter, r *http.Request) error {
		if _, err := ReadBody(r); err != nil {
			return err
		}
		select {
		case <-r.Context().Done():
			return errors.New("the deadline of the body ended the request")
		case <-time.After(2 * timeout):
		}
		return WriteJSON(w, 200, "done")
	})}})
	if err != nil {
		t.Fatal(err)
	}
	if status, text := send(t, listen(t, h).URL, []byte("body"), true); status != 200 {
		t.Errorf("answer is %d %s", status, text)
	}
}

func TestBrokenBody(t *testing.T) {
	t.Parallel()
	s := listen(t, newNode(t, size(1000)))
	c := dial(t, s, "POST /size HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12345")
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if status, _, body := readAnswer(t, c, "POST"); status != 400 || !strings.Contains(body, "broke off") {
		t.Errorf("answer is %d %s", status, body)
	}
}

// TestStream checks that flushed data arrives while the handler runs, and that the handler learns when
// the client leaves.
func TestStream(t *testing.T) {
	t.Parallel()
	left := make(chan error, 1)
	s := listen(t, newNode(t, get("/events", func(w http.ResponseWriter, r *http.Request) error {
		if _, err := io.WriteString(w, "event 1\n"); err != nil {
			return err
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			return err
		}
		<-r.Context().Done()
		left <- r.Context().Err()
		return nil
	}), get("/flusher", func(w http.ResponseWriter, r *http.Request) error {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return nil
	})))
	for _, path := range []string{"/events", "/flusher"} {
		ctx, cancel := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, "GET", s.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		w, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if w.StatusCode != 200 || w.Header.Get("Server-Timing") == "" {
			t.Errorf("%s: header is %d %v", path, w.StatusCode, w.Header)
		}
		if path == "/events" {
			if line, err := bufio.NewReader(w.Body).ReadString('\n'); line != "event 1\n" {
				t.Errorf("first line is %q, %v", line, err)
			}
		}
		cancel()
		w.Body.Close()
	}
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("the handler learns %v", err)
	}
}

// TestErrorAfterTheBeginning checks that a client cannot take a part of a response for the whole.
func TestErrorAfterTheBeginning(t *testing.T) {
	t.Parallel()
	n := newNode(t, get("/", func(w http.ResponseWriter, r *http.Request) error {
		if _, err := io.WriteString(w, "half"); err != nil {
			return err
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			return err
		}
		return errors.New("disk gone")
	}))
	w, err := http.Get(listen(t, n).URL)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Body.Close()
	if text, err := io.ReadAll(w.Body); err == nil {
		t.Errorf("the answer ends cleanly after %q", text)
	}
	if !strings.Contains(n.log.String(), "disk gone") {
		t.Errorf("log is %q", n.log)
	}
}

func TestLongAnswerHasALength(t *testing.T) {
	t.Parallel()
	s := listen(t, newNode(t, get("/{n}", func(w http.ResponseWriter, r *http.Request) error {
		return WriteJSON(w, 200, strings.Repeat("<", map[string]int{"short": 10, "long": 100_000}[r.PathValue("n")]))
	})))
	for path, want := range map[string]int64{"/short": 13, "/long": 100_003} {
		w, err := http.Get(s.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(w.Body)
		w.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if w.ContentLength != want || int64(len(text)) != want {
			t.Errorf("%s: length %d, %d bytes; want %d", path, w.ContentLength, len(text), want)
		}
		if !bytes.Contains(text, []byte("<<<")) {
			t.Errorf("%s: %.20s, want it unescaped", path, text)
		}
	}
}

func TestHeadAndOptions(t *testing.T) {
	t.Parallel()
	s := listen(t, newNode(t, get("/{$}", answer("text"))))
	c := dial(t, s, "HEAD / HTTP/1.1\r\nHost: x\r\n\r\n")
	if status, header, body := readAnswer(t, c, "HEAD"); status != 200 || body != "" || header.Get("Content-Length") != "7" {
		t.Errorf("HEAD: %d %v %q", status, header, body)
	}
	c = dial(t, s, "HEAD /missing HTTP/1.1\r\nHost: x\r\n\r\n")
	if status, header, body := readAnswer(t, c, "HEAD"); status != 404 || body != "" || header.Get("Content-Type") != "application/json" {
		t.Errorf("HEAD of nothing: %d %v %q", status, header, body)
	}
	c = dial(t, s, "OPTIONS / HTTP/1.1\r\nHost: x\r\n\r\n")
	if status, header, body := readAnswer(t, c, "OPTIONS"); status != 405 || header.Get("Allow") != "GET, HEAD" || !strings.Contains(body, "METHOD_NOT_ALLOWED") {
		t.Errorf("OPTIONS: %d %v %q", status, header, body)
	}
}

// TestInformational checks that a 1xx response does not count as the response.
func TestInformational(t *testing.T) {
	t.Parallel()
	n := newNode(t, get("/", func(w http.ResponseWriter, r *http.Request) error {
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusAccepted)
		w.WriteHeader(http.StatusTeapot) // too late
		return nil
	}))
	w, err := http.Get(listen(t, n).URL)
	if err != nil {
		t.Fatal(err)
	}
	w.Body.Close()
	if w.StatusCode != http.StatusAccepted || len(w.Header.Values("Server-Timing")) != 1 {
		t.Errorf("answer is %d %v", w.StatusCode, w.Header)
	}
}
