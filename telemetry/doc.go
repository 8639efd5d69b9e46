// Package telemetry owns the names of all metrics and the registry that publishes
// them, the names of spans and their attributes, and the export of spans. Other
// packages declare their metrics in metric_names.go and register them through Registry, so
// that only this package imports the Prometheus library. Spans are started with
// OpenTelemetry's API, and only this package imports its SDK. The package imports no
// other package of this module.
package telemetry
