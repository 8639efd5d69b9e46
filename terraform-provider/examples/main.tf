# A namespace of a Corvo cloud, a queue in it with a schedule, and the key of the
# queue's workers.
#
#   export CORVO_ENDPOINT=http://127.0.0.1:8080 CORVO_CLOUD_TOKEN=cv_org_...
#   terraform apply

terraform {
  required_version = ">= 1.11"

  required_providers {
    corvo = {
      source = "corvo/corvo"
    }
  }
}

# Endpoint and cloud token come from the environment.
provider "corvo" {}

variable "namespace" {
  type    = string
  default = "mail"
}

variable "deletion_protection" {
  type    = bool
  default = false # true in production
}

variable "max_concurrency" {
  type    = number
  default = 10
}

variable "digest" {
  type        = string
  default     = "0 7 * * mon-fri"
  description = "When the digest is sent."
}

variable "key_version" {
  type        = number
  default     = 1
  description = "Raise it to rotate the workers' key."
}

variable "key_overlap" {
  type        = string
  default     = "24h"
  description = "How long the workers may go on with the old key."
}

resource "corvo_namespace" "mail" {
  name                = var.namespace
  deletion_protection = var.deletion_protection

  timeouts = {
    create = "5m"
  }
}

resource "corvo_queue" "outbox" {
  namespace       = corvo_namespace.mail.id
  name            = "outbox"
  max_concurrency = var.max_concurrency
  rate_limit      = 100 # a minute
  rate_window_ms  = 60000

  retention = {
    completed = "24h"
    dead      = "720h"
  }

  defaults = {
    max_retries      = 5
    retry_base_delay = "30s"
  }
}

resource "corvo_schedule" "digest" {
  namespace = corvo_namespace.mail.id
  name      = "digest"
  queue     = corvo_queue.outbox.name
  cron      = var.digest
  timezone  = "Europe/Berlin"
  payload   = jsonencode({ kind = "digest", to = "all" })
  jitter    = "5m"
}

# The key's text is made here, anew in each run, and opens nothing until the
# resource below takes it: when the key is made, and when it is rotated.
ephemeral "corvo_api_key" "worker" {}

resource "corvo_api_key" "worker" {
  namespace   = corvo_namespace.mail.id
  name        = "mail worker"
  roles       = ["worker"]
  queue_scope = [corvo_queue.outbox.name]

  secret_wo         = ephemeral.corvo_api_key.worker.secret
  secret_wo_version = var.key_version
  overlap           = var.key_overlap
}

# In that run the text must be handed on, for it is in no state: to a store of
# secrets, through a write-only argument of its provider with the same version, or,
# as here, to a file.
resource "terraform_data" "worker_key" {
  triggers_replace = corvo_api_key.worker.id

  provisioner "local-exec" {
    command = "umask 077 && printf %s \"$CORVO_API_KEY\" > worker.key"

    environment = {
      CORVO_API_KEY = ephemeral.corvo_api_key.worker.secret
    }
  }
}

output "endpoint" {
  value = corvo_namespace.mail.endpoint
}

output "worker_key_id" {
  value = corvo_api_key.worker.id
}
