package rpc

import (
	"bytes"
	"errors"
	"io"
	"net/http/httptest"
	"testing"
	"testing/iotest"

	"connectrpc.com/connect"

	"github.com/corvo/corvo/api"
)

// Envelopes are checked however their bytes are split among reads, and a fault is returned again by every
// further Read.
func TestBody(t *testing.T) {
	t.Parallel()
	const message = "\x00\x00\x00\x01\x02" + "0123456789012345678901234567890123456789012345678901234567890123456789" +
		"0123456789012345678901234567890123456789012345678901234567890123456789" + "0123456789012345678901234567890123456789012345678901234567890123456789" +
		"012345678901234567890123456789012345678901234567" // 258 bytes
	const empty = "\x00\x00\x00\x00\x00"
	for _, c := range []struct {
		kind string
		one  bool
		body string
		code api.Code
	}{
		{"application/grpc", true, message, ""},
		{"application/grpc+json", true, empty, ""},
		{"application/grpc", false, message + empty + message, ""},
		{"application/grpc", false, "", ""},
		{"application/grpc", true, "", api.Unsupported},
		{"Application/GRPC", true, message + empty, api.Unsupported},
		{"application/grpc", true, message + "\x00", api.Unsupported},
		{"application/grpc", true, message[:len(message)-1], api.ParseError},
		{"application/grpc", false, message + empty[:4], api.ParseError},
		{"application/grpc", false, "\x01\x00\x00\x00\x00", api.Unsupported},
		{"application/grpc", false, "\x02\x00\x00\x00\x00", api.ParseError},
		{"application/grpc-web+proto", false, empty + "\x80\x00\x00\x00\x00", ""},
		{"application/grpc-web", false, "\x02", api.ParseError},
		{"application/connect+proto", false, empty + "\x02\x00\x00\x00\x02{}", ""},
		{"application/connect+json", false, "\x80", api.ParseError},
		{"application/json", true, "\x01", ""},
		{"application/proto", true, "", ""},
	} {
		for _, r := range []io.Reader{bytes.NewReader([]byte(c.body)), iotest.OneByteReader(bytes.NewReader([]byte(c.body))), iotest.DataErrReader(bytes.NewReader([]byte(c.body)))} {
			request := httptest.NewRequest("POST", "/", r)
			request.Header.Set("Content-Type", c.kind)
			b := Body(request, c.one)
			read, err := io.ReadAll(b)
			if c.code == "" {
				if err != nil || string(read) != c.body {
					t.Errorf("%s %.20q: %q, %v", c.kind, c.body, read, err)
				}
				continue
			}
			var told *connect.Error
			if !errors.As(err, &told) || FromError(err).Code != c.code {
				t.Errorf("%s %.20q: %v, want %s", c.kind, c.body, err, c.code)
			}
			if n, again := b.Read(make([]byte, 1)); n != 0 || again != err {
				t.Errorf("%s %.20q: then %d, %v", c.kind, c.body, n, again)
			}
		}
	}
	cut := httptest.NewRequest("POST", "/", iotest.ErrReader(io.ErrUnexpectedEOF))
	if _, err := Body(cut, true).Read(make([]byte, 1)); err == nil || FromError(err).Code != api.ParseError {
		t.Errorf("a body that is cut: %v", err)
	}
}
