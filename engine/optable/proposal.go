package optable

import (
	"fmt"

	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/pipeline"
)

// Proposal returns an op in the form that the pipeline takes: with the number and the class of its row. An op
// without a row has number 0, which no log takes. Methods for both on each op were rejected, because they
// would repeat the table.
//
// o may be a pipeline.OrderedOp that embeds the op. The proposal holds the embedded message, because a wrapper
// hides the message's type, codec and other methods from callers of Proposed.
func (t *Table[R]) Proposal(o Op) pipeline.Op {
	p := proposal{op: o}
	m := o.ProtoReflect()
	if inner, ok := m.Interface().(Op); ok {
		p.op = inner
	}
	p.fast, _ = m.Interface().(generated)
	var none R
	if r := t.byMessage()[m.Descriptor()]; r != none {
		p.number, p.class = r.place()
	}
	if ordered, ok := o.(pipeline.OrderedOp); ok {
		return orderedProposal{p, ordered}
	}
	return p
}

// Proposed returns the op of a Proposal, without a wrapper, or nil for any other op of a pipeline.
func Proposed(p pipeline.Op) Op {
	if of, ok := p.(interface{ proposed() Op }); ok {
		return of.proposed()
	}
	return nil
}

// proposal implements pipeline.Op.
type proposal struct {
	op     Op
	fast   generated // the op's generated codec; nil = it has none
	number entry.Number
	class  pipeline.Class
}

func (p proposal) proposed() Op          { return p.op }
func (p proposal) Number() entry.Number  { return p.number }
func (p proposal) Class() pipeline.Class { return p.class }

// Validate validates the op. An op without a generated codec is also encoded once, because protobuf-go refuses
// a string that is not UTF-8, and the client must learn it before the op enters the backlog.
func (p proposal) Validate() error {
	if err := p.op.Validate(); err != nil || p.fast != nil {
		return err
	}
	if _, err := reflected.Marshal(p.op); err != nil {
		return fmt.Errorf("the request cannot be encoded: %w", err)
	}
	return nil
}

func (p proposal) SizeVT() int {
	if p.fast != nil {
		return p.fast.SizeVT()
	}
	return reflected.Size(p.op)
}

func (p proposal) MarshalToSizedBufferVT(to []byte) (int, error) {
	if p.fast != nil {
		return p.fast.MarshalToSizedBufferVT(to)
	}
	data, err := reflected.MarshalAppend(to[:0], p.op)
	if err == nil && len(data) != len(to) {
		err = fmt.Errorf("%s takes %d bytes, not %d", p.op.ProtoReflect().Descriptor().FullName(), len(data), len(to))
	}
	return len(data), err
}

// orderedProposal is the proposal of an op that decides when it enters the backlog.
type orderedProposal struct {
	proposal
	pipeline.OrderedOp
}
