package api

import (
	"errors"
	"fmt"
	"net/http"
	"sort"
	"time"
)

// Code is a stable word for what went wrong. Clients branch on it; the message
// is for people.
type Code string

// The codes of the wire contract. Each has its HTTP status in codes.
const (
	ValidationError     Code = "VALIDATION_ERROR"
	ParseError          Code = "PARSE_ERROR"
	Unauthorized        Code = "UNAUTHORIZED"
	Forbidden           Code = "FORBIDDEN"
	NotFound            Code = "NOT_FOUND"
	MethodNotAllowed    Code = "METHOD_NOT_ALLOWED"
	Conflict            Code = "CONFLICT"
	LeaseLost           Code = "LEASE_LOST"
	StateConflict       Code = "STATE_CONFLICT"
	IdempotencyMismatch Code = "IDEMPOTENCY_MISMATCH"
	PreconditionFailed  Code = "PRECONDITION_FAILED"
	PayloadTooLarge     Code = "PAYLOAD_TOO_LARGE"
	InvalidFilter       Code = "INVALID_FILTER"
	InvalidCron         Code = "INVALID_CRON"
	CrossShard          Code = "CROSS_SHARD"
	ResultMismatch      Code = "RESULT_MISMATCH"
	RateLimited         Code = "RATE_LIMITED"
	Overloaded          Code = "OVERLOADED"
	QueueFull           Code = "QUEUE_FULL"
	BudgetExceeded      Code = "BUDGET_EXCEEDED"
	Unsupported         Code = "UNSUPPORTED"
	Internal            Code = "INTERNAL"
	LeaderUnavailable   Code = "LEADER_UNAVAILABLE"
	ViewBehind          Code = "VIEW_BEHIND"
	Suspended           Code = "SUSPENDED"
	Unhealthy           Code = "UNHEALTHY"
)

// property is what a code says besides its name.
type property struct {
	status    int  // HTTP status
	retryable bool // the same request may succeed later
}

var codes = map[Code]property{
	ValidationError:     {http.StatusBadRequest, false},
	ParseError:          {http.StatusBadRequest, false},
	Unauthorized:        {http.StatusUnauthorized, false},
	Forbidden:           {http.StatusForbidden, false},
	NotFound:            {http.StatusNotFound, false},
	MethodNotAllowed:    {http.StatusMethodNotAllowed, false},
	Conflict:            {http.StatusConflict, false},
	LeaseLost:           {http.StatusConflict, false},
	StateConflict:       {http.StatusConflict, false},
	IdempotencyMismatch: {http.StatusConflict, false},
	PreconditionFailed:  {http.StatusPreconditionFailed, false},
	PayloadTooLarge:     {http.StatusRequestEntityTooLarge, false},
	InvalidFilter:       {http.StatusUnprocessableEntity, false},
	InvalidCron:         {http.StatusUnprocessableEntity, false},
	CrossShard:          {http.StatusUnprocessableEntity, false},
	ResultMismatch:      {http.StatusUnprocessableEntity, false},
	RateLimited:         {http.StatusTooManyRequests, true},
	Overloaded:          {http.StatusTooManyRequests, true},
	QueueFull:           {http.StatusTooManyRequests, true},
	BudgetExceeded:      {http.StatusTooManyRequests, true},
	Unsupported:         {http.StatusNotImplemented, false},
	Internal:            {http.StatusInternalServerError, false},
	LeaderUnavailable:   {http.StatusServiceUnavailable, true},
	ViewBehind:          {http.StatusServiceUnavailable, true},
	Suspended:           {http.StatusServiceUnavailable, true},
	Unhealthy:           {http.StatusServiceUnavailable, true},
}

// Status is the HTTP status of a code; unknown codes are 500.
func (c Code) Status() int {
	if p, ok := codes[c]; ok {
		return p.status
	}
	return http.StatusInternalServerError
}

// Retryable says whether the same request may succeed later.
func (c Code) Retryable() bool { return codes[c].retryable }

// Codes lists every code, sorted.
func Codes() []Code {
	all := make([]Code, 0, len(codes))
	for c := range codes {
		all = append(all, c)
	}
	sort.Slice(all, func(i, j int) bool { return all[i] < all[j] })
	return all
}

// Error is an answer other than success. Code and Message go to the client;
// the cause stays inside.
type Error struct {
	Code       Code
	Message    string         // what went wrong and what to do
	Details    map[string]any // optional, per code
	RetryAfter time.Duration  // for retryable codes; 0 = unknown
	cause      error
}

// Errorf makes an Error. A %w verb records the cause without showing it twice.
func Errorf(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), cause: errors.Unwrap(err)}
}

// Wrap makes an Error whose message hides its cause from the client.
func Wrap(cause error, code Code, message string) *Error {
	return &Error{Code: code, Message: message, cause: cause}
}

// FieldError is what is wrong with one field of a request. An Error that refuses
// fields lists them, as a []FieldError, in Details["fields"].
type FieldError struct {
	Field string `json:"field"` // its path, such as "jobs[2].queue"
	Error string `json:"error"` // what is wrong, without the field's name
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// Unwrap is the hidden cause, if any.
func (e *Error) Unwrap() error { return e.cause }

// Is matches another *Error of the same code, so that
// errors.Is(err, &Error{Code: NotFound}) asks for the code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code && t.Message == ""
}

// CodeOf is the code of err: "" for nil, Internal for errors that have none.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return Internal
}
