package engine

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/transport"
)

// These are the calls between members of a group, besides raft's own. The numbers are permanent.
const (
	callPropose transport.Kind = 1 // an op, to the leader: proposal -> answer
	callIndex   transport.Kind = 2 // the leader's read index, confirmed by a quorum: nothing -> position
	callTerm    transport.Kind = 3 // the progress of a member, with its newest term: nothing -> progress
	callChange  transport.Kind = 4 // a membership change, to the leader: change (JSON) -> nothing
	callRemoved transport.Kind = 5 // the leader's notice to a removed member: index of the configuration -> nothing
)

// fields encodes numbers one after another. Decoding stops at the first damaged number.
type fields []byte

func (f fields) number(n uint64) fields { return binary.AppendUvarint(f, n) }

func (f *fields) next() (uint64, error) {
	n, size := binary.Uvarint(*f)
	if size <= 0 {
		return 0, errors.New("a message between members is cut short")
	}
	*f = (*f)[size:]
	return n, nil
}

// numbers decodes one number into each of to.
func (f *fields) numbers(to ...*uint64) (err error) {
	for _, n := range to {
		if *n, err = f.next(); err != nil {
			return err
		}
	}
	return nil
}

// proposal is an op that is forwarded to the leader.
type proposal struct {
	trace entry.Trace // of the span it was proposed in; zero = none
	op    entry.Op
}

func encodeProposal(trace entry.Trace, op Op, size int) ([]byte, error) {
	out := make([]byte, 0, 1+len(trace)+binary.MaxVarintLen32+size)
	if trace == (entry.Trace{}) {
		out = append(out, 0)
	} else {
		out = append(append(out, 1), trace[:]...)
	}
	out = binary.AppendUvarint(out, uint64(op.Number()))
	at := len(out)
	out = out[:at+size]
	n, err := op.MarshalToSizedBufferVT(out[at:])
	if err == nil && n != size {
		err = fmt.Errorf("it wrote %d bytes where it had announced %d", n, size)
	}
	if err != nil {
		return nil, api.Errorf(api.Internal, "the request cannot be written: %w", err)
	}
	return out, nil
}

func decodeProposal(data []byte) (p proposal, err error) {
	short := errors.New("a forwarded op is cut short")
	if len(data) < 1 {
		return p, short
	}
	traced, rest := data[0] == 1, fields(data[1:])
	if traced {
		if len(rest) < len(p.trace) {
			return p, short
		}
		rest = rest[copy(p.trace[:], rest):]
	}
	number, err := rest.next()
	if err != nil || number == 0 || number > 1<<32-1 {
		return p, short
	}
	p.op = entry.Op{Number: entry.Number(number), Bytes: rest}
	return p, nil
}

// outcome is the first byte of the answer to a proposal. It says whether the op was applied.
type outcome byte

const (
	outcomeNil       outcome = iota // applied; the result is nil
	outcomeResult                   // applied; the result follows
	outcomeRefused                  // applied; the machine's refusal follows, or the reason why the result cannot be sent
	outcomeUnwritten                // nothing was written; the reason follows
	outcomeUnknown                  // it may have been applied, or may still be; the reason follows
)

// answer is the leader's answer to a proposal.
type answer struct {
	outcome outcome
	at      Position
	body    []byte
}

func (a answer) encode() []byte {
	out := fields(make([]byte, 0, 1+2*binary.MaxVarintLen64+len(a.body)))
	out = append(out, byte(a.outcome))
	return append(out.number(a.at.Index).number(a.at.Term), a.body...)
}

// encodeBounded encodes an answer that fits into a message. It replaces a result that is too large by an
// error which says that the op was applied, because the transport's own error would not say so.
func (a answer) encodeBounded() []byte {
	if out := a.encode(); len(out) <= transport.MaxCall {
		return out
	}
	a.outcome = outcomeRefused
	a.body = encodeError(api.Errorf(api.Internal, "the request was carried out, but its result takes %d bytes, more than the %d that go from node to node", len(a.body), transport.MaxCall))
	return a.encode()
}

func decodeAnswer(data []byte) (a answer, err error) {
	if len(data) == 0 || outcome(data[0]) > outcomeUnknown {
		return a, errors.New("the answer to a forwarded op is damaged")
	}
	a.outcome = outcome(data[0])
	rest := fields(data[1:])
	if err := rest.numbers(&a.at.Index, &a.at.Term); err != nil {
		return a, err
	}
	a.body = rest
	return a, nil
}

// encodeError encodes an error for another member. An error that is not an *api.Error is sent as INTERNAL
// with its text.
func encodeError(err error) []byte {
	data, failed := json.Marshal(toAPIError(err))
	if failed != nil { // JSON cannot encode the details
		e := *toAPIError(err).(*api.Error) //nolint:errorlint // toAPIError returns nothing else
		e.Details = nil
		data, _ = json.Marshal(e)
	}
	return data
}

func decodeError(data []byte) error {
	e := new(api.Error)
	if err := json.Unmarshal(data, e); err != nil || e.Code == "" {
		return api.Errorf(api.Internal, "the leader's error cannot be read (%v)", err)
	}
	return e
}

// progress describes how far a member has got: its log, its machine and its view, the highest feature level that it
// understands, and whether it is still too far behind to take part in elections.
type progress struct {
	term, last, applied, view uint64
	level                     uint32
	joining                   bool
}

func (s progress) encode() []byte {
	f := fields(nil).number(s.term).number(s.last).number(s.applied).number(s.view).number(uint64(s.level))
	if s.joining {
		f = f.number(1)
	}
	return f
}

func decodeProgress(data []byte) (s progress, err error) {
	f := fields(data)
	var level uint64
	if err := f.numbers(&s.term, &s.last, &s.applied, &s.view, &level); err != nil {
		return s, err
	}
	if level > math.MaxUint32 {
		return s, errors.New("a member's feature level is out of range")
	}
	s.level, s.joining = uint32(level), len(f) > 0
	return s, nil
}

// change is a membership change requested from the leader.
type change struct {
	What    string `json:"what"` // one of the change constants
	ID      string `json:"id,omitempty"`
	Address string `json:"address,omitempty"`
}

const (
	changeAdd      = "add"
	changePromote  = "promote"
	changeRemove   = "remove"
	changeTransfer = "transfer"
)
