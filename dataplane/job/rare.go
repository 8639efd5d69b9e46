package job

import "google.golang.org/protobuf/proto"

// Few jobs have what Options and Detail hold, so that a plain job has neither
// message. Reading one that is not there reads zeroes; Opt and Details make it.

// Opt is the job's options, to be set before the job is stored. They may be shared
// from then on.
func (j *Job) Opt() *Options {
	if j.Options == nil {
		j.Options = &Options{}
	}
	return j.Options
}

// Details is the job's detail, to be changed.
func (j *Job) Details() *Detail {
	if j.Detail == nil {
		j.Detail = &Detail{}
	}
	return j.Detail
}

// Copy is options of one's own with the same content; never nil.
func (o *Options) Copy() *Options {
	if o == nil {
		return &Options{}
	}
	return proto.Clone(o).(*Options)
}

// Tidy drops options and detail that say nothing, so that there is one way to say
// it.
func (j *Job) Tidy() {
	if j.Options != nil && j.Options.SizeVT() == 0 {
		j.Options = nil
	}
	if j.Detail != nil && j.Detail.SizeVT() == 0 {
		j.Detail = nil
	}
}
