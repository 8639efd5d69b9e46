package job

import "google.golang.org/protobuf/proto"

// Few jobs use the fields of Options and Detail, so a plain job has neither message. Reading an absent
// message gives zero values; Opt and Details create it.

// Opt returns the job's options for setting them before the job is stored. From then on they may be shared,
// so only a Copy may be changed.
func (j *Job) Opt() *Options {
	if j.Options == nil {
		j.Options = &Options{}
	}
	return j.Options
}

// Details returns the job's detail for changing it.
func (j *Job) Details() *Detail {
	if j.Detail == nil {
		j.Detail = &Detail{}
	}
	return j.Detail
}

// Copy returns a copy of the options; it is never nil.
func (o *Options) Copy() *Options {
	if o == nil {
		return &Options{}
	}
	return proto.Clone(o).(*Options)
}

// Tidy drops empty options and an empty detail, so that a record has only one form.
func (j *Job) Tidy() {
	if j.Options != nil && j.Options.SizeVT() == 0 {
		j.Options = nil
	}
	if j.Detail != nil && j.Detail.SizeVT() == 0 {
		j.Detail = nil
	}
}
