# What a platform engineer declares for agents: which provider of models they use and
# what that lets through, what it costs, what may be spent, what a person approves, and
# who is told when something is wrong.
#
#   export CORVO_ENDPOINT=http://127.0.0.1:8080 CORVO_API_KEY=...
#   export TF_VAR_webhook_secret=$(openssl rand -hex 32)
#   terraform apply

terraform {
  required_version = ">= 1.11"

  required_providers {
    corvo = {
      source = "corvo/corvo"
    }
  }
}

provider "corvo" {}

variable "daily_usd" {
  type        = number
  default     = 200
  description = "What all jobs together may cost in a day."
}

variable "webhook_url" {
  type    = string
  default = "https://alerts.example.com/corvo"
}

# It is in no state and no plan. Where it changes, raise the version.
variable "webhook_secret" {
  type      = string
  sensitive = true
  ephemeral = true
}

variable "webhook_secret_version" {
  type    = number
  default = 1
}

# Jobs wait before they would meet these limits, and those of other providers go first.
resource "corvo_model_provider" "anthropic" {
  name             = "anthropic"
  rpm_limit        = 4000
  input_tpm_limit  = 2000000
  output_tpm_limit = 400000
}

# A price that was agreed on goes before the one that came with the server.
resource "corvo_price" "agreed" {
  model_provider                 = corvo_model_provider.anthropic.name
  model                          = "claude-sonnet-*"
  input_usd_per_million          = 2.7
  output_usd_per_million         = 13.5
  cache_creation_usd_per_million = 3.375
  cache_read_usd_per_million     = 0.27
}

resource "corvo_queue" "agents" {
  name            = "agents"
  max_concurrency = 200
  model_provider  = corvo_model_provider.anthropic.name
  priority_ageing = "10m" # nothing waits for ever
}

# No tenant has more than ten agents at work, and one has fewer.
resource "corvo_limit_rule" "each_tenant" {
  queue           = corvo_queue.agents.name
  key             = "*"
  max_concurrency = 10
}

resource "corvo_limit_rule" "trial" {
  queue           = corvo_queue.agents.name
  key             = "trial"
  max_concurrency = 2
  rate_limit      = 30
  rate_window     = "1m"
}

resource "corvo_budget" "all" {
  scope               = "namespace"
  target              = "default"
  daily_usd           = var.daily_usd
  monthly_usd         = 4000
  timezone            = "Europe/Berlin"
  default_reserve_usd = 0.5
  alerts              = [50, 80, 100]
}

resource "corvo_budget" "trial" {
  scope               = "key"
  target              = "trial"
  rolling_usd         = 5
  rolling_window      = "24h"
  on_exceed           = "throttle"
  default_reserve_usd = 0.25
}

resource "corvo_approval_policy" "dear" {
  name               = "dear or long"
  cost_usd_gt        = 10
  agent_iteration_gt = 50
}

resource "corvo_webhook" "alerts" {
  url               = var.webhook_url
  events            = ["alert_fired", "alert_resolved"]
  secret_wo         = var.webhook_secret
  secret_wo_version = var.webhook_secret_version
}

resource "corvo_alert_rule" "spent" {
  name      = "four fifths of the day's budget"
  when      = "budget"
  target    = corvo_budget.all.id
  threshold = 80
  notify    = corvo_webhook.alerts.id
}

resource "corvo_alert_rule" "waiting" {
  name      = "agents wait"
  when      = "oldest_pending"
  queue     = corvo_queue.agents.name
  threshold = 300
  for       = "5m"
  notify    = corvo_webhook.alerts.id
}
