package api

import (
	"errors"
	"fmt"
	"net/http"
	"sort"
	"time"
)

// Code is the stable code of an error. Clients branch on the code; the message is for people.
type Code string

// The codes. Their HTTP statuses are in codes.
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

// property has the properties of a code.
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

// Status returns the HTTP status of a code; 500 for an unknown one.
func (c Code) Status() int {
	if p, ok := codes[c]; ok {
		return p.status
	}
	return http.StatusInternalServerError
}

// Retryable reports whether the same request may succeed later. It returns false for an unknown code.
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

// DetailUnchanged is the name of a detail. If it is true, the refused request changed nothing and never will, so that a
// client may send it again even without an Idempotency-Key.
const DetailUnchanged = "unchanged"

// Error is the error of a request. The client sees Code, Message and Details, but not the cause.
type Error struct {
	Code       Code
	Message    string         // what went wrong and what to do about it
	Details    map[string]any // optional, per code
	RetryAfter time.Duration  // for retryable codes; 0 = unknown
	cause      error
}

// Errorf returns an Error with a formatted message. The error of a single %w verb becomes the cause, and the
// message contains its text.
func Errorf(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), cause: errors.Unwrap(err)}
}

// Wrap returns an Error with a cause that its message does not contain.
func Wrap(cause error, code Code, message string) *Error {
	return &Error{Code: code, Message: message, cause: cause}
}

// FieldError is the fault of one field of a request. An Error for faulty fields has a []FieldError in
// Details["fields"].
type FieldError struct {
	Field string `json:"field"` // its path, such as "jobs[2].queue"
	Error string `json:"error"` // the fault, without the name of the field
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// Unwrap returns the cause, or nil.
func (e *Error) Unwrap() error { return e.cause }

// Is reports whether target is an *Error with the same code and no message, so that errors.Is(err,
// &Error{Code: NotFound}) tests for the code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code && t.Message == ""
}

// CodeOf returns the code of err: "" for nil, Internal for an error without a code.
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
