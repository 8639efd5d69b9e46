// Package examples holds Terraform configurations for users to start from. The acceptance
// tests apply them unchanged. The package imports no other package of this module.
package examples

import _ "embed"

// Main is main.tf: a namespace, a queue, a schedule and a key that is rotated.
//
//go:embed main.tf
var Main string

// Platform is platform/main.tf: the limits, prices, budgets, policies and alerts of a
// namespace or a bare node.
//
//go:embed platform/main.tf
var Platform string

// Access is access/main.tf: custom roles of a namespace or a bare node.
//
//go:embed access/main.tf
var Access string
