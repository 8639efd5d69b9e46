package engine

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/transport"
)

// What the members of a group ask each other, besides what raft does. The
// numbers are permanent.
const (
	callPropose transport.Kind = 1 // an op, of the leader: proposal -> answer
	callIndex   transport.Kind = 2 // what the leader has applied, once it has made sure that it leads: nothing -> position
	callTerm    transport.Kind = 3 // the newest term of a member: nothing -> standing
	callChange  transport.Kind = 4 // a change of membership, of the leader: change (JSON) -> nothing
	callRemoved transport.Kind = 5 // the leader's farewell to a member it has removed: index of the configuration -> nothing
)

// fields writes numbers one after another; reading stops counting at the first
// one that is damaged.
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

// numbers reads as many as there are places for.
func (f *fields) numbers(to ...*uint64) (err error) {
	for _, n := range to {
		if *n, err = f.next(); err != nil {
			return err
		}
	}
	return nil
}

// proposal is an op on its way to the leader.
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

// outcome is the first byte of the answer to a proposal: what became of the op.
type outcome byte

const (
	outcomeNil       outcome = iota // applied; the result is nil
	outcomeResult                   // applied; the result follows
	outcomeRefused                  // applied and refused by the machine; its error follows
	outcomeUnwritten                // nothing was written; the reason follows
	outcomeUnknown                  // it may have been applied, or still be; the reason follows
)

// answer is what became of a proposal.
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

// fit encodes an answer so that it can be sent: one that cannot would arrive as an
// error that says nothing of the op, which has been applied.
func (a answer) fit() []byte {
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

// encodeError writes an error for another member; what is not an *api.Error
// stays here but for its text.
func encodeError(err error) []byte {
	data, failed := json.Marshal(outward(err))
	if failed != nil { // details that JSON has no form for
		e := *outward(err).(*api.Error) //nolint:errorlint // outward answers nothing else
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

// standing is where a member is, as it says itself.
type standing struct {
	term, last, applied uint64
}

func (s standing) encode() []byte {
	return fields(nil).number(s.term).number(s.last).number(s.applied)
}

func decodeStanding(data []byte) (s standing, err error) {
	f := fields(data)
	return s, f.numbers(&s.term, &s.last, &s.applied)
}

// change is a change of membership that the leader is asked for.
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
