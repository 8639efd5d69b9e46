// Package reconcile brings namespaces to where their specs say. It is
// level-triggered: it takes no input but the store's state and what hosts report,
// asks plan for one step per namespace, does it, and looks again. Observations of
// hosts live here, in memory. It decides nothing itself, and imports plan, store,
// fleet, the wire's types and telemetry.
package reconcile
