// Package telemetry owns the names of everything that is measured and the
// registry it is measured in. Other packages declare what they measure in
// names.go and register it through Registry; the Prometheus library is not seen
// outside. It imports nothing of ours.
package telemetry
