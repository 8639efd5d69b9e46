package provider

import "time"

// What a server refuses in settings of queues and schedules, so that a plan says it
// and not only an apply. These repeat the server's own bounds, which the API does
// not tell: one that is behind them costs an early message or, where the server
// allows more by now, a release of the provider.
const (
	maxConcurrency   = 1_000_000
	maxRateLimit     = 10_000_000
	minRateWindow    = time.Second
	maxRateWindow    = 24 * time.Hour
	maxQueueLength   = 1_000_000_000
	maxRetention     = 10 * 365 * 24 * time.Hour
	maxAttempts      = 1000 // max_retries
	maxRetryDelay    = 365 * 24 * time.Hour
	maxJitterPercent = 100
	minExpireAfter   = time.Millisecond
	maxExpireAfter   = 365 * 24 * time.Hour

	maxScheduleName   = 128 // bytes
	maxCronText       = 256 // bytes
	maxUniqueKey      = 512 // bytes
	maxScheduleJitter = time.Hour
)
