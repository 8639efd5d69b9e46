// Package reconcile brings namespaces to the state that their specs declare. It is level-triggered: from
// nothing but the store's state and the reports of hosts it asks plan for one step per namespace, proposes
// it, and looks again. It keeps the observations of hosts in memory. Beside the steps it records claims of usage, and what
// organisations with a spend limit owe. The Closer finalises the invoices of months that are over. The package makes no
// decision itself, and imports api, billing, plan, store, controlplane/fleet, the wire's types, telemetry, tenancy and
// tenancy/keyring.
package reconcile
