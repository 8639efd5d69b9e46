package provider

import "time"

// The server's bounds of declared resources, repeated here so that a plan reports a fault and not only an
// apply. The API does not publish them. If the server's bound has become narrower, only the apply reports the
// fault; if it has become wider, users need a new release of the provider.
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

	maxAgeing          = 7 * 24 * time.Hour
	maxFairnessKey     = 256           // bytes
	maxLabel           = 128           // bytes of the name of a provider, a policy, an alert rule
	maxTokensPerMinute = 1_000_000_000 // requests as well
	maxUsageWord       = 128           // bytes of the name of a model
	maxUSD             = "1000000000"
	maxBudgetTarget    = 512 // bytes
	maxBudgetAlerts    = 10
	maxAlertPercent    = 1000
	minRollingWindow   = time.Minute
	maxRollingWindow   = 400 * 24 * time.Hour
	maxTagName         = 128  // bytes
	maxTagValue        = 1024 // bytes
	maxIterations      = 10_000
	maxWebhookURL      = 2048 // bytes
	minWebhookSecret   = 16   // bytes
	maxWebhookSecret   = 256  // bytes
	maxWebhookRetries  = 20
	maxWebhookQueues   = 64
	maxSecretOverlap   = 30 * 24 * time.Hour
	maxAlertFor        = 24 * time.Hour
	maxResourceName    = 1024 // bytes
	maxRoleName        = 64
)

// The permissions that a role may grant, and the names of built-in roles.
var (
	rolePermissions = []string{
		"job.enqueue", "job.work", "job.read", "job.manage", "queue.read", "queue.manage", "key.manage", "node.read", "node.admin",
	}
	builtInRoles = []string{"admin", "operator", "worker", "readonly", "cloud-operator", "host", "gateway", "joiner"}
)
