// Package telemetry owns the names of everything that is measured and the
// registry it is measured in, the names of spans and their attributes, and the
// way spans leave the process. Other packages declare what they measure in
// names.go and register it through Registry; the Prometheus library is not seen
// outside. Spans are made with OpenTelemetry's API; its SDK is not seen outside.
// It imports nothing of ours.
package telemetry
