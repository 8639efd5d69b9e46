# Roles of a bare node or of a cloud's namespace: what keys may do that have them. The keys
# of a node are made with `corvo keys create NAME --roles auditor`, which shows a secret
# once; those of a cloud may be resources, too (corvo_api_key).
#
#   export CORVO_ENDPOINT=http://127.0.0.1:8080 CORVO_API_KEY=...      # a node
#   export CORVO_ENDPOINT=https://queue.example.com CORVO_CLOUD_TOKEN=... CORVO_NAMESPACE=orders
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
