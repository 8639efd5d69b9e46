// Package event defines the events that clients receive: which events of the feed they are, under which
// names, and the data of each. The event stream, a job's timeline and the webhooks all use it. It owns no
// state and decides nothing. It imports dataplane/state and dataplane/job, which it reads, api, whose Event
// it builds, and billing/money.
package event
