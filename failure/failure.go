// Package failure answers "what went wrong?": every error becomes exactly one
// Failure of a closed set of classes. It matches foreign errors by small
// interfaces and imports no driver or SDK.
package failure

import (
	"errors"
	"fmt"
	"time"
)

// Failure is one classified outcome of a start that did not succeed.
type Failure struct {
	Class Class
	// Reason refines the class in a stable, lower-case word that workloads
	// choose, such as "infra_error_config". It may be empty.
	Reason string
	// Status is the HTTP status, or 0.
	Status int
	// RetryAfter is how long the target asked us to wait, or 0.
	RetryAfter time.Duration
	// RetryAfterIgnored says why a Retry-After header was not used.
	RetryAfterIgnored string
	Blame             Blame
	// Order is what the handler demanded, overriding every rule.
	Order Order
	// Snooze is the wait of OrderSnooze.
	Snooze time.Duration
	Err    error
}

// Of returns a failure of the class with the class's own blame.
func Of(class Class) Failure { return Failure{Class: class, Blame: class.Blame()} }

// ReasonHostLost is the one reason that retry.Decide knows: what is parked for
// it has a cause of its own, because no change of configuration mends it.
const ReasonHostLost = "host_lost"

// Order is a handler's explicit demand, given by Fatal, Park or Snooze.
type Order uint8

const (
	OrderNone   Order = iota // by policy
	OrderFail                // Fatal: no retry
	OrderPark                // Park: wait for a person
	OrderSnooze              // Snooze: not a failure, come back later
)

// Error carries a ready Failure through an error chain, so that handlers can
// name the class themselves.
type Error struct{ Failure Failure }

// New wraps err as a failure of the class for the reason.
func New(class Class, reason string, err error) *Error {
	f := Of(class)
	f.Reason, f.Err = reason, err
	return &Error{Failure: f}
}

func (e *Error) Error() string {
	f := e.Failure
	switch {
	case f.Err != nil && f.Reason != "":
		return fmt.Sprintf("%s: %s: %v", f.Class, f.Reason, f.Err)
	case f.Err != nil:
		return fmt.Sprintf("%s: %v", f.Class, f.Err)
	case f.Reason != "":
		return f.Class.String() + ": " + f.Reason
	}
	return f.Class.String()
}

func (e *Error) Unwrap() error { return e.Failure.Err }

type orderError struct {
	order  Order
	snooze time.Duration
	err    error
}

func (e *orderError) Error() string {
	switch e.order {
	case OrderPark:
		return "park: " + e.err.Error()
	case OrderSnooze:
		return "snooze " + e.snooze.String()
	}
	return e.err.Error()
}

func (e *orderError) Unwrap() error { return e.err }

var errNoCause = errors.New("no cause given")

// Fatal marks err as not worth a retry: the job fails at once, whatever the
// policy says of its class.
func Fatal(err error) error { return ordered(OrderFail, err) }

// Park marks err as something a person must mend: the job waits, parked,
// and spends no attempt.
func Park(err error) error { return ordered(OrderPark, err) }

// Snooze returns an error that is no failure: the job comes back after d and
// spends no attempt. A negative d counts as 0.
func Snooze(d time.Duration) error {
	return &orderError{order: OrderSnooze, snooze: max(d, 0)}
}

func ordered(order Order, err error) error {
	if err == nil {
		err = errNoCause
	}
	return &orderError{order: order, err: err}
}
