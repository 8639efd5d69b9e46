package front

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// TestRefusalsAreJSON sends requests that net/http itself refuses, as the first and as the second one of a
// connection.
func TestRefusalsAreJSON(t *testing.T) {
	t.Parallel()
	addr := serving(t, Config{MaxConnections: 100})
	for name, c := range map[string]struct {
		sent, code, says string
		status           int
	}{
		"no HTTP":           {"good morning, server\r\n\r\n", "PARSE_ERROR", "malformed HTTP request", 400},
		"no host":           {"GET / HTTP/1.1\r\n\r\n", "PARSE_ERROR", "missing required Host header", 400},
		"a wrong host":      {"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", "PARSE_ERROR", "malformed Host header", 400},
		"a wrong header":    {"GET / HTTP/1.1\r\nHost: x\r\na b: c\r\n\r\n", "PARSE_ERROR", "malformed HTTP request", 400},
		"a wrong length":    {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: y\r\n\r\n", "PARSE_ERROR", "malformed HTTP request", 400},
		"an expectation":    {"POST / HTTP/1.1\r\nHost: x\r\nExpect: y\r\nContent-Length: 0\r\n\r\n", "UNSUPPORTED", "Expect", 417},
		"and of HTTP/1.0":   {"POST / HTTP/1.0\r\nExpect: y\r\nContent-Length: 0\r\n\r\n", "UNSUPPORTED", "Expect", 417},
		"large headers":     {"GET / HTTP/1.1\r\nHost: x\r\nA: " + strings.Repeat("x", maxHeaderBytes+8192) + "\r\n\r\n", "PAYLOAD_TOO_LARGE", "65536 bytes", 431},
		"a coding":          {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", "UNSUPPORTED", "Transfer-Encoding", 501},
		"another version":   {"GET / HTTP/3.1\r\nHost: x\r\n\r\n", "UNSUPPORTED", "version", 505},
		"text like refusal": {"HTTP/1.1 400 Bad Request\r\n\r\n", "PARSE_ERROR", "malformed HTTP request", 400},
	} {
		for _, before := range []string{"", request} {
			conn := dial(t, addr)
			answers := bufio.NewReader(conn)
			if write(t, conn, before); before != "" {
				answer, err := http.ReadResponse(answers, nil)
				if err != nil || answer.StatusCode != 200 {
					t.Fatalf("%s: the request before it: %+v, %v", name, answer, err)
				}
				_, _ = io.Copy(io.Discard, answer.Body)
			}
			write(t, conn, c.sent)
			answer, err := http.ReadResponse(answers, nil)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			var problem struct{ Error, Code string }
			if err := json.NewDecoder(answer.Body).Decode(&problem); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if answer.StatusCode != c.status || problem.Code != c.code || !strings.Contains(problem.Error, c.says) {
				t.Errorf("%s: %d %+v, want %d %s that says %q", name, answer.StatusCode, problem, c.status, c.code, c.says)
			}
			if got := answer.Header.Get("Content-Type"); got != "application/json" || !answer.Close {
				t.Errorf("%s: content type %q, the connection closes: %v", name, got, answer.Close)
			}
		}
	}
}

// TestAnswersPass checks that responses that look like a refusal of net/http pass unchanged, even if each is
// a write of its own on the connection.
func TestAnswersPass(t *testing.T) {
	t.Parallel()
	const like = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n400 Bad Request"
	addr := serving(t, Config{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		switch r.URL.Path {
		case "/hijacked":
			conn, _, err := control.Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.WriteString(conn, like)
			_ = conn.Close()
			return
		case "/refused":
			w.WriteHeader(http.StatusBadRequest)
		case "/":
			w.Header().Set("Content-Length", strconv.Itoa(len(like))) // the body goes out as it is
		}
		_ = control.Flush()
		_, _ = io.WriteString(w, like)
		_ = control.Flush()
	})})
	for _, path := range []string{"/", "/refused", "/chunked", "/hijacked"} {
		conn := dial(t, addr)
		write(t, conn, strings.Replace(request, " / ", " "+path+" ", 1))
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		want := like
		if path == "/hijacked" {
			want = "400 Bad Request"
		}
		if got, err := io.ReadAll(answer.Body); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	both := new(http.Protocols)
	both.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: both}
	defer transport.CloseIdleConnections()
	client := http.Client{Transport: transport}
	for range 3 {
		answer, err := client.Get("http://" + addr + "/")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(answer.Body); err != nil || string(got) != like || answer.ProtoMajor != 2 {
			t.Errorf("HTTP/%d: %q, %v", answer.ProtoMajor, got, err)
		}
		_ = answer.Body.Close()
	}
}
