package rpc

import (
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/text"
)

// What of a call is wrong in its protocol, before there is a message to decode, Connect's
// handlers answer by themselves, with none of what Error puts into an error. It is
// therefore found here, before they see it.

// versionHeader is where a call of Connect has the version of the protocol, if it says it.
const (
	versionHeader = "Connect-Protocol-Version"
	version       = "1"
)

// CheckHeaders finds fault with the headers of a call, of whichever protocol: with
// compression, which nothing here speaks, with a deadline that is none, and with another
// version of Connect.
func CheckHeaders(r *http.Request) error {
	kind := kindOf(r)
	deadline, digits, units, compression := "Connect-Timeout-Ms", 10, "", "Content-Encoding"
	switch {
	case strings.HasPrefix(kind, "application/grpc"):
		deadline, digits, units, compression = "Grpc-Timeout", 8, "HMSmun", "Grpc-Encoding"
	case strings.HasPrefix(kind, "application/connect+"):
		compression = "Connect-Content-Encoding"
	}
	if name := r.Header.Get(compression); name != "" && name != "identity" {
		return api.Errorf(api.Unsupported, "%s is %q: messages are not compressed here, send them as they are", compression, text.Cut(name, maxSaid))
	}
	if wait := r.Header.Get(deadline); wait != "" && !isTimeout(wait, digits, units) {
		want := "milliseconds"
		if units != "" {
			want = "a number and one of H, M, S, m, u and n"
		}
		return api.Errorf(api.ValidationError, "%s is %q: want %s, in %d digits at most", deadline, text.Cut(wait, maxSaid), want, digits)
	}
	if v := r.Header.Get(versionHeader); v != "" && v != version && units == "" {
		return api.Errorf(api.ValidationError, "%s is %q: this server speaks %s", versionHeader, text.Cut(v, maxSaid), version)
	}
	return nil
}

// kindOf is the content type of a call, by which it says which protocol it speaks.
func kindOf(r *http.Request) string { return strings.ToLower(r.Header.Get("Content-Type")) }

// isTimeout says whether a text is a number of so many digits at most, with one of the
// units behind it, if there are some.
func isTimeout(wait string, digits int, units string) bool {
	if units != "" {
		last := len(wait) - 1
		if !strings.Contains(units, wait[last:]) {
			return false
		}
		wait = wait[:last]
	}
	return wait != "" && len(wait) <= digits && strings.Trim(wait, "0123456789") == ""
}

// headSize is that of an envelope's head: its flags, and the length of the message.
const headSize = 5

// Body is that of a call, and finds fault with the envelopes that its messages come in,
// where its protocol has some: one that is cut short, one that is of no kind the
// protocol knows, and with more or less than one message where there may only be one.
func Body(r *http.Request, one bool) io.ReadCloser {
	b := &body{ReadCloser: r.Body, one: one}
	switch kind := kindOf(r); {
	case strings.HasPrefix(kind, "application/grpc-web"):
		b.enveloped, b.end = true, 0x80
	case strings.HasPrefix(kind, "application/grpc"):
		b.enveloped = true
	case strings.HasPrefix(kind, "application/connect+"):
		b.enveloped, b.end = true, 0x02
	}
	return b
}

type body struct {
	io.ReadCloser
	enveloped bool
	end       byte // the flags of what ends a stream; 0: nothing does
	one       bool

	messages int    // that have begun
	head     int    // how many bytes of the next envelope's head have been read
	length   uint32 // of the message, as far as the head is read
	left     uint32 // of the message, once it is
	err      error  // what is wrong, for good
}

func (b *body) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.ReadCloser.Read(p)
	if wrong := b.follow(p[:n]); wrong != nil {
		b.err = Error(wrong)
		return 0, b.err
	}
	cut := b.head > 0 || b.left > 0
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), err == io.EOF && cut:
		b.err = Error(api.Errorf(api.ParseError, "the message is cut short: the call ends within it"))
	case err == io.EOF && b.enveloped && b.one && b.messages == 0:
		b.err = Error(api.Errorf(api.Unsupported, "the call has no message: this procedure takes one"))
	default:
		return n, err
	}
	return n, b.err
}

// follow goes over bytes that have been read.
func (b *body) follow(p []byte) *api.Error {
	if !b.enveloped {
		return nil
	}
	for len(p) > 0 {
		if b.left > 0 {
			n := min(uint64(b.left), uint64(len(p)))
			b.left -= uint32(n)
			p = p[n:]
			continue
		}
		if b.head == 0 {
			if wrong := b.begin(p[0]); wrong != nil {
				return wrong
			}
		} else {
			b.length = b.length<<8 | uint32(p[0])
		}
		p = p[1:]
		if b.head++; b.head == headSize {
			b.head, b.left, b.length = 0, b.length, 0
		}
	}
	return nil
}

// begin looks at the flags of an envelope.
func (b *body) begin(flags byte) *api.Error {
	switch {
	case flags == 0 && b.one && b.messages > 0:
		return api.Errorf(api.Unsupported, "the call has more than one message: this procedure takes one")
	case flags == 0:
		b.messages++
	case flags == 1:
		return api.Errorf(api.Unsupported, "a message is compressed: messages are not compressed here, send them as they are")
	case flags != b.end:
		return api.Errorf(api.ParseError, "an envelope has the flags %#02x, which this protocol does not know", flags)
	}
	return nil
}
