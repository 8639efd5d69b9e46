package provider

import (
	"slices"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/tenancy"
)

// The bounds that the provider repeats equal the server's.
func TestBoundsAreTheServers(t *testing.T) {
	t.Parallel()
	dollars, err := api.ParseUSD(maxUSD)
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string]struct{ ours, servers int64 }{
		"maxConcurrency":     {maxConcurrency, job.MaxConcurrency},
		"maxRateLimit":       {maxRateLimit, job.MaxRateLimit},
		"minRateWindow":      {int64(minRateWindow), int64(job.MinRateWindow)},
		"maxRateWindow":      {int64(maxRateWindow), int64(job.MaxRateWindow)},
		"maxQueueLength":     {maxQueueLength, job.MaxQueueLength},
		"maxRetention":       {int64(maxRetention), int64(job.MaxRetention)},
		"maxAttempts":        {maxAttempts, job.MaxAttempts},
		"maxRetryDelay":      {int64(maxRetryDelay), int64(job.MaxRetryDelay)},
		"maxJitterPercent":   {maxJitterPercent, job.MaxJitterPercent},
		"maxExpireAfter":     {int64(maxExpireAfter), int64(job.MaxExpireAfter)},
		"maxScheduleName":    {maxScheduleName, job.MaxScheduleName},
		"maxCronText":        {maxCronText, job.MaxCronText},
		"maxUniqueKey":       {maxUniqueKey, job.MaxUniqueKey},
		"maxScheduleJitter":  {int64(maxScheduleJitter), int64(job.MaxScheduleJitter)},
		"maxAgeing":          {int64(maxAgeing), int64(job.MaxAgeing)},
		"maxFairnessKey":     {maxFairnessKey, job.MaxFairnessKey},
		"maxLabel":           {maxLabel, job.MaxLabel},
		"maxTokensPerMinute": {maxTokensPerMinute, job.MaxTokensPerMinute},
		"maxUsageWord":       {maxUsageWord, job.MaxUsageWord},
		"maxUSD":             {int64(dollars), job.MaxMoney},
		"maxBudgetTarget":    {maxBudgetTarget, job.MaxBudgetTarget},
		"maxBudgetAlerts":    {maxBudgetAlerts, job.MaxBudgetAlerts},
		"maxAlertPercent":    {maxAlertPercent, job.MaxAlertPercent},
		"minRollingWindow":   {int64(minRollingWindow), int64(job.MinRollingWindow)},
		"maxRollingWindow":   {int64(maxRollingWindow), int64(job.MaxRollingWindow)},
		"maxTagName":         {maxTagName, job.MaxTagName},
		"maxTagValue":        {maxTagValue, job.MaxTagValue},
		"maxIterations":      {maxIterations, job.MaxIterations},
		"maxWebhookURL":      {maxWebhookURL, job.MaxWebhookURL},
		"minWebhookSecret":   {minWebhookSecret, job.MinWebhookSecret},
		"maxWebhookSecret":   {maxWebhookSecret, job.MaxWebhookSecret},
		"maxWebhookRetries":  {maxWebhookRetries, job.MaxWebhookRetries},
		"maxAlertFor":        {int64(maxAlertFor), int64(job.MaxAlertFor)},
		"maxResourceName":    {maxResourceName, job.MaxResourceName},
		"maxRoleName":        {maxRoleName, tenancy.MaxRoleName},
	} {
		if b.ours != b.servers {
			t.Errorf("%s is %d, the server's is %d", name, b.ours, b.servers)
		}
	}
}

// The provider allows the same permissions and names of roles as the server.
func TestRolesAreTheServers(t *testing.T) {
	t.Parallel()
	var grants []string
	for _, p := range tenancy.DataPlanePermissions() {
		grants = append(grants, string(p))
	}
	if !slices.Equal(rolePermissions, grants) {
		t.Errorf("a role grants %v, the server's %v", rolePermissions, grants)
	}
	for _, role := range builtInRoles {
		if !tenancy.Role(role).BuiltIn() {
			t.Errorf("%s is not built in", role)
		}
	}
	for _, role := range tenancy.Roles() {
		if !slices.Contains(builtInRoles, string(role)) {
			t.Errorf("%s is built in", role)
		}
	}
}
