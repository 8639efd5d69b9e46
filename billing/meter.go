package billing

// Meter is the permanent number of something that is counted. Numbers are stored in journals, so that a meter keeps its
// number for ever and the number of a removed meter is not given to another one.
type Meter uint32

// The meters. Their definitions are in Meters.
const (
	Reports             Meter = 1
	RejectedReports     Meter = 2
	InputTokens         Meter = 3
	OutputTokens        Meter = 4
	CacheCreationTokens Meter = 5
	CacheReadTokens     Meter = 6
	Cost                Meter = 7
	Requests            Meter = 8
	RequestBytes        Meter = 9
	ResponseBytes       Meter = 10
	JobsEnqueued        Meter = 11
	JobsCompleted       Meter = 12
	ActiveSeconds       Meter = 13
	StoredByteSeconds   Meter = 14
	OpenSeconds         Meter = 15
)

// metersEnd is one more than the highest number of a meter.
const metersEnd = 16

// Part is a part of the cloud that counts.
type Part string

// The parts that count.
const (
	ShardPart   Part = "shard"   // the leader of a shard
	GatewayPart Part = "gateway" // a gateway
)

// Definition says what a meter counts.
type Definition struct {
	Meter
	Name  string // in the API and in the ledger
	Unit  string // of its quantities, which are whole numbers
	By    Part   // only this part counts it
	About string // for people
}

// Meters has the definition of every meter, by its number. All meters are sums over an hour.
var Meters = [metersEnd]Definition{
	Reports:             {Reports, "reports", "report", ShardPart, "usage reports of workers"},
	RejectedReports:     {RejectedReports, "rejected_reports", "report", ShardPart, "reports that were kept aside: no other meter contains their amounts"},
	InputTokens:         {InputTokens, "input_tokens", "token", ShardPart, "input tokens, without those of a cache"},
	OutputTokens:        {OutputTokens, "output_tokens", "token", ShardPart, "output tokens"},
	CacheCreationTokens: {CacheCreationTokens, "cache_creation_tokens", "token", ShardPart, "input tokens that were written to a cache"},
	CacheReadTokens:     {CacheReadTokens, "cache_read_tokens", "token", ShardPart, "input tokens that were read from a cache"},
	Cost:                {Cost, "cost_usd", "nano-USD", ShardPart, "cost of model calls, as reported or else computed from the prices"},
	Requests:            {Requests, "requests", "request", GatewayPart, "requests that a host answered"},
	RequestBytes:        {RequestBytes, "request_bytes", "byte", GatewayPart, "bodies of these requests"},
	ResponseBytes:       {ResponseBytes, "response_bytes", "byte", GatewayPart, "bodies of their responses"},
	JobsEnqueued:        {JobsEnqueued, "jobs_enqueued", "job", ShardPart, "jobs created by clients, schedules, chains and batches"},
	JobsCompleted:       {JobsCompleted, "jobs_completed", "job", ShardPart, "jobs that completed, each time they did"},
	ActiveSeconds:       {ActiveSeconds, "active_seconds", "second", ShardPart, "leases of workers, to their end or the attempt's"},
	StoredByteSeconds:   {StoredByteSeconds, "stored_byte_seconds", "byte-second", ShardPart, "size of the leader's store over the open time"},
	OpenSeconds:         {OpenSeconds, "open_seconds", "second", ShardPart, "time for which a shard was open with a leader"},
}

// Known reports whether the meter is one of Meters.
func (m Meter) Known() bool { return m > 0 && m < metersEnd }

// String returns the meter's name.
func (m Meter) String() string {
	if !m.Known() {
		return "unknown"
	}
	return Meters[m].Name
}
