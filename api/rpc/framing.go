package rpc

import (
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/text"
)

// The handlers of Connect answer faults of the protocol by themselves, before there is a message to decode,
// and without the code, details and retry delay that Error adds. So this file checks calls before the
// handlers see them.

// versionHeader is the optional header of a Connect call with the version of the protocol.
const (
	versionHeader = "Connect-Protocol-Version"
	version       = "1"
)

// CheckHeaders refuses a call of any protocol with UNSUPPORTED if its messages are compressed, and with
// VALIDATION_ERROR if its deadline is invalid or it has another version of Connect.
func CheckHeaders(r *http.Request) error {
	kind := contentType(r)
	deadline, digits, units, compression := "Connect-Timeout-Ms", 10, "", "Content-Encoding"
	switch {
	case strings.HasPrefix(kind, "application/grpc"):
		deadline, digits, units, compression = "Grpc-Timeout", 8, "HMSmun", "Grpc-Encoding"
	case strings.HasPrefix(kind, "application/connect+"):
		compression = "Connect-Content-Encoding"
	}
	if name := r.Header.Get(compression); name != "" && name != "identity" {
		return api.Errorf(api.Unsupported, "%s is %q: messages are not compressed here, send them as they are", compression, text.Cut(name, maxQuoted))
	}
	if wait := r.Header.Get(deadline); wait != "" && !isTimeout(wait, digits, units) {
		want := "milliseconds"
		if units != "" {
			want = "a number and one of H, M, S, m, u and n"
		}
		return api.Errorf(api.ValidationError, "%s is %q: want %s, in %d digits at most", deadline, text.Cut(wait, maxQuoted), want, digits)
	}
	if v := r.Header.Get(versionHeader); v != "" && v != version && units == "" {
		return api.Errorf(api.ValidationError, "%s is %q: this server speaks %s", versionHeader, text.Cut(v, maxQuoted), version)
	}
	return nil
}

// contentType returns the content type of a call, which identifies its protocol.
func contentType(r *http.Request) string { return strings.ToLower(r.Header.Get("Content-Type")) }

// isTimeout reports whether a text is a number of at most the given digits and, if there are units, ends in
// one of them.
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

// prefixSize is the size of the prefix of an envelope: its flags and the length of the message.
const prefixSize = 5

// Body returns the body of a call with checks. Reading it fails if the body is cut short, or if the envelope
// of a message is compressed or of a type that the protocol does not know. If the parameter one is set and the
// protocol has envelopes, reading also fails unless the call has exactly one message.
func Body(r *http.Request, one bool) io.ReadCloser {
	b := &body{ReadCloser: r.Body, one: one}
	switch kind := contentType(r); {
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
	end       byte // the flags of the envelope that ends a stream; 0 = the protocol has none
	one       bool

	messages int    // begun so far
	prefix   int    // bytes read of the next prefix
	length   uint32 // of the message, as far as the prefix is read
	left     uint32 // bytes left of the message
	err      error  // returned by every further Read
}

func (b *body) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.ReadCloser.Read(p)
	if wrong := b.scan(p[:n]); wrong != nil {
		b.err = Error(wrong)
		return 0, b.err
	}
	cut := b.prefix > 0 || b.left > 0
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), err == io.EOF && cut:
		b.err = Error(api.Errorf(api.ParseError, "the message is cut short: the call ends within it"))
	case err == io.EOF && b.enveloped && b.one && b.messages == 0:
		b.err = Error(api.Errorf(api.Unsupported, "the call has no message, but this procedure needs one"))
	default:
		return n, err
	}
	return n, b.err
}

// scan checks the bytes that were read.
func (b *body) scan(p []byte) *api.Error {
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
		if b.prefix == 0 {
			if wrong := b.checkFlags(p[0]); wrong != nil {
				return wrong
			}
		} else {
			b.length = b.length<<8 | uint32(p[0])
		}
		p = p[1:]
		if b.prefix++; b.prefix == prefixSize {
			b.prefix, b.left, b.length = 0, b.length, 0
		}
	}
	return nil
}

// checkFlags checks the flags of an envelope.
func (b *body) checkFlags(flags byte) *api.Error {
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
