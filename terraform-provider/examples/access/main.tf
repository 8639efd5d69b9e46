# Roles of a bare node or cluster: what keys may do that have them. The keys themselves
# are made with `corvo keys create NAME --roles auditor`, which shows a secret once.
#
#   export CORVO_ENDPOINT=http://127.0.0.1:8080 CORVO_API_KEY=...
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

variable "auditors_see" {
  type        = set(string)
  default     = ["job.read", "queue.read", "node.read"]
  description = "What auditors may look at."
}

resource "corvo_role" "auditor" {
  name        = "auditor"
  permissions = var.auditors_see
}

# Who brings jobs and never takes any.
resource "corvo_role" "producer" {
  name        = "producer"
  permissions = ["job.enqueue"]
}
