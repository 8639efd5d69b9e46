package job

// What a client may leave open at an enqueue, so that the queue's defaults decide,
// as bits of NewJob.defaults. A bit says that the value beside it is only what
// would be taken where the queue says nothing. The bits travel in the log: their
// values are permanent.
//
// Values equal to the built-in defaults were not taken for "left open" instead: a
// client that asks for three attempts means three, whatever the queue says.
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
