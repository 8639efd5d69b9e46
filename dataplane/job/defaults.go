package job

// These bits of NewJob.defaults mark the values that an enqueue leaves open, so that the queue's defaults
// decide. If a bit is set, the enqueue's value applies only if the queue has no default. The bits are in the
// log, so their values are permanent.
//
// Treating values equal to the built-in defaults as left open was rejected: a client that asks for three
// attempts means three, whatever the queue's default.
const (
	DefaultsPriority    uint32 = 1 << iota // priority
	DefaultsMaxAttempts                    // max_retries
	DefaultsBackoff                        // retry_backoff
	DefaultsBaseDelay                      // retry_base_delay
	DefaultsMaxDelay                       // retry_max_delay
	DefaultsJitter                         // retry_jitter_percent
	DefaultsExpireAfter                    // expire_after

	AllDefaults = 1<<iota - 1
)
