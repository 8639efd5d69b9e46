package transport

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/text"
)

// faultKind identifies the source of an error in a frameFault.
type faultKind uint8

const (
	faultUnseen faultKind = 1 // the transport's; the addressee has not seen the request
	faultRaft   faultKind = 2 // raft's, as text
	faultCall   faultKind = 3 // a Handler's
)

// remoteError is the text of an error at the other end, of raft or of the transport.
type remoteError string

func (e remoteError) Error() string { return string(e) }

// maxFaultText bounds an error's text on the wire, in bytes.
const maxFaultText = 4 << 10

func clip(s string) string { return text.Head(s, maxFaultText) }

// encodeFault encodes an error.
func encodeFault(kind faultKind, err error) []byte {
	to := []byte{byte(kind)}
	if kind != faultCall {
		return appendBytes(to, clip(err.Error()))
	}
	var e *api.Error
	if !errors.As(err, &e) {
		e = api.Errorf(api.Internal, "%s", err)
	}
	details, jsonErr := json.Marshal(e.Details)
	if jsonErr != nil || len(details) > MaxCall {
		details = []byte("null") // details that JSON cannot encode could not go to a client either
	}
	to = appendBytes(to, e.Code)
	to = appendBytes(to, clip(e.Message))
	to = binary.AppendUvarint(to, uint64(max(0, e.RetryAfter)))
	return appendBytes(to, details)
}

// decodeFault returns the encoded error as fault. err reports a malformed encoding.
func decodeFault(b []byte) (fault, err error) {
	c := cursor{rest: b}
	switch faultKind(c.byte()) {
	case faultUnseen:
		fault = unsent(remoteError(c.string()))
	case faultRaft:
		fault = remoteError(c.string())
	case faultCall:
		fault = c.apiError()
	default:
		c.fail("an error of a kind that there is not")
	}
	return fault, c.end()
}

func (c *cursor) apiError() error {
	e := &api.Error{Code: api.Code(c.string()), Message: c.string(), RetryAfter: time.Duration(c.uint())}
	details, err := decodeDetails(c.bytes())
	if err != nil {
		c.fail(fmt.Sprintf("an error's details: %v", err))
	}
	e.Details = details
	return e
}

// decodeDetails decodes an error's details. It keeps numbers as they were written, and decodes refused fields
// into their type.
func decodeDetails(b []byte) (map[string]any, error) {
	var details map[string]any
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(&details); err != nil {
		return nil, err
	}
	if _, ok := details[fieldsDetail]; ok {
		var typed struct {
			Fields []api.FieldError `json:"fields"`
		}
		if json.Unmarshal(b, &typed) == nil {
			details[fieldsDetail] = typed.Fields
		}
	}
	return details, nil
}

// fieldsDetail is the key under which an api.Error lists refused fields.
const fieldsDetail = "fields"
