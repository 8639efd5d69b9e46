package op

import (
	"fmt"
	"strconv"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fault"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/engine/optable"
)

// problems collects the faults of an op and keeps the first one of each field. The zero value is ready for
// use, and a faultless op costs nothing. The code of the error is PAYLOAD_TOO_LARGE if only sizes are wrong,
// else VALIDATION_ERROR.
type problems struct{ fault.List }

// add records err, if any, for a field.
func (p *problems) add(field string, err error) {
	if err != nil {
		p.Invalid(field, "%v", err)
	}
}

func (p *problems) err() error { return p.Err() }

// item calls add for a field of the i-th element of a list.
func (p *problems) item(list string, i int, field string, errs ...error) {
	for _, err := range errs {
		if err != nil {
			p.add(path(list, i, field), err)
		}
	}
}

// size records a field of the i-th element if size is above `most`.
func (p *problems) size(list string, i int, field string, size, most int) {
	if size > most {
		p.Add(api.PayloadTooLarge, path(list, i, field), "has %d bytes; at most %d are allowed", size, most)
	}
}

// length records a list that is empty or has more than `most` elements.
func (p *problems) length(field string, n, most int) {
	switch {
	case n < 1:
		p.add(field, fmt.Errorf("is empty; give at least one"))
	case n > most:
		p.add(field, fmt.Errorf("has %d elements; at most %d are allowed", n, most))
	}
}

// ids records a list that is empty or has more than job.MaxDutyItems elements, and ids of the wrong length.
func (p *problems) ids(field string, ids [][]byte) {
	p.length(field, len(ids), job.MaxDutyItems)
	for i, id := range ids {
		if len(id) != len(job.ID{}) {
			p.item(field, i, "", fmt.Errorf("has %d bytes; an id has %d", len(id), len(job.ID{})))
		}
	}
}

// whole records an op that is too large to be logged: it has more than job.MaxOpBytes.
func (p *problems) whole(o Op) {
	if size := optable.Size(o); size > job.MaxOpBytes {
		p.Add(api.PayloadTooLarge, "request", "takes %d bytes; at most %d are allowed: split it", size, job.MaxOpBytes)
	}
}

// path returns "list[i].field", or "list[i]" if field is empty.
func path(list string, i int, field string) string {
	s := list + "[" + strconv.Itoa(i) + "]"
	if field != "" {
		s += "." + field
	}
	return s
}
