// Package event has the words of the feed for clients: which of its events they are
// told of, under what name, and what is said of each. The stream of events, a job's
// timeline and the webhooks all speak by it. It owns no state and decides nothing: it
// imports dataplane/state, which it reads, and api, whose Event it makes.
package event
