package job

import (
	"fmt"
	"strings"
)

// Event is an event in the life of a job. Ops decide which event applies; Transition returns the state it leads
// to. Events are never stored, so their values may change.
type Event uint8

// The events of the lifecycle.
const (
	OnEnqueue     Event = iota // created, runnable at once
	OnSchedule                 // created for a later time
	OnPromote                  // its due time arrived, and it waits for no other job
	OnFetch                    // leased by a worker
	OnRenew                    // its lease was renewed
	OnReturn                   // not delivered, or its worker shut down; the attempt does not count
	OnAck                      // its worker succeeded
	OnContinue                 // its agent ended an iteration and continues with the next
	OnAwait                    // its agent ended an iteration, and the next one waits for its tools
	OnSuspend                  // its agent ended an iteration, and a person decides whether it continues
	OnRetry                    // its worker failed, attempts are left
	OnExhaust                  // its worker failed on the last attempt
	OnReclaim                  // its lease expired, attempts are left
	OnReclaimLast              // its lease expired on the last attempt
	OnCancel                   // a client cancelled it while it waited or was held
	OnStop                     // a client cancelled it while it ran, and its worker will be notified
	OnLetGo                    // its worker released it after OnStop, or its lease ended
	OnHold                     // kept from running until a person decides
	OnApprove                  // the person approved it
	OnReject                   // the person rejected it
	OnExpire                   // it expired
	OnBlock                    // a job it depends on did not succeed
	OnDrop                     // its full queue dropped it, or a budget rejected it before its fetch
	OnPostpone                 // a later enqueue with its debounce key postponed it
	OnRevive                   // a client made it run again
	events
)

var eventWords = [events]string{
	"enqueue", "schedule", "promote", "fetch", "renew", "return",
	"ack", "continue", "await", "suspend", "retry", "exhaust", "reclaim", "reclaim last",
	"cancel", "stop", "let go", "hold", "approve", "reject", "expire", "block", "drop", "postpone", "revive",
}

func (e Event) String() string {
	if e >= events {
		return fmt.Sprintf("event(%d)", uint8(e))
	}
	return eventWords[e]
}

// unborn is the state before the first event.
const unborn = State_STATE_UNSPECIFIED

// transition is one row of the lifecycle.
type transition struct {
	from State
	on   Event
	to   State
}

// lifecycle lists all transitions; no other can happen.
var lifecycle = []transition{
	{unborn, OnEnqueue, Pending},
	{unborn, OnSchedule, Scheduled},
	{Scheduled, OnPromote, Pending},
	{Retrying, OnPromote, Pending},
	{Pending, OnFetch, Active},
	{Active, OnRenew, Active},
	{Active, OnReturn, Pending},
	{Active, OnAck, Completed},
	{Active, OnContinue, Pending},
	{Active, OnAwait, Scheduled},
	{Active, OnSuspend, Held},
	{Active, OnRetry, Retrying},
	{Active, OnExhaust, Dead},
	{Active, OnReclaim, Pending},
	{Active, OnReclaimLast, Dead},
	{Scheduled, OnCancel, Cancelled},
	{Pending, OnCancel, Cancelled},
	{Retrying, OnCancel, Cancelled},
	{Held, OnCancel, Cancelled},
	{Active, OnStop, Active},
	{Active, OnLetGo, Cancelled},
	{Scheduled, OnHold, Held},
	{Pending, OnHold, Held},
	{Retrying, OnHold, Held},
	{Held, OnApprove, Pending},
	{Held, OnReject, Dead},
	{Scheduled, OnExpire, Dead},
	{Pending, OnExpire, Dead},
	{Active, OnExpire, Dead},
	{Retrying, OnExpire, Dead},
	{Held, OnExpire, Dead},
	{Scheduled, OnBlock, Dead},
	{Held, OnBlock, Dead},
	{Pending, OnDrop, Dead},
	{Scheduled, OnPostpone, Scheduled},
	{Completed, OnRevive, Pending},
	{Dead, OnRevive, Pending},
	{Cancelled, OnRevive, Pending},
}

// transitions indexes lifecycle. 0 means "cannot happen", because no event leads to unborn.
var transitions = func() (table [States][events]State) {
	for _, t := range lifecycle {
		if table[t.from][t.on] != unborn {
			panic(fmt.Sprintf("lifecycle has two rows for %q on %q", t.from.Word(), t.on))
		}
		table[t.from][t.on] = t.to
	}
	return table
}()

// Transition returns the state that event e leads to from s. ok is false if e cannot happen in s. The zero State
// stands for a job that does not exist yet.
func Transition(s State, e Event) (to State, ok bool) {
	if s < 0 || int(s) >= States || e >= events {
		return unborn, false
	}
	to = transitions[s][e]
	return to, to != unborn
}

// Diagram returns the lifecycle as a Mermaid state diagram.
func Diagram() string {
	name := func(s State) string {
		if s == unborn {
			return "[*]"
		}
		return s.Word()
	}
	var b strings.Builder
	b.WriteString("stateDiagram-v2\n")
	for _, t := range lifecycle {
		fmt.Fprintf(&b, "    %s --> %s: %s\n", name(t.from), name(t.to), t.on)
	}
	for s := range State(States) {
		if s.Settled() {
			fmt.Fprintf(&b, "    %s --> [*]\n", s.Word())
		}
	}
	return b.String()
}
