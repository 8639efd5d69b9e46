// Package examples holds Terraform configurations that people may start from. The
// acceptance scenario applies them as they are. It imports nothing of ours.
package examples

import _ "embed"

// Main is main.tf: a namespace, a queue, a schedule and a key that is rotated.
//
//go:embed main.tf
var Main string
