package job

import (
	"errors"
	"fmt"
	"time"
)

// CheckRateLimit checks the number of jobs that may start in a window: at most MaxRateLimit; 0 is unlimited.
func CheckRateLimit(n uint32) error {
	if n > MaxRateLimit {
		return fmt.Errorf("is %d; at most %d are allowed, 0 is unlimited", n, MaxRateLimit)
	}
	return nil
}

// CheckRateWindow checks the window of a rate limit in milliseconds: MinRateWindow to MaxRateWindow.
func CheckRateWindow(ms int64) error {
	if ms < MinRateWindow.Milliseconds() || ms > MaxRateWindow.Milliseconds() {
		return fmt.Errorf("is %d ms; a rate limit's window lasts from %s to %s", ms, MinRateWindow, MaxRateWindow)
	}
	return nil
}

// CheckQueueLength checks the number of jobs that may wait in a queue: at most MaxQueueLength; 0 is
// unlimited.
func CheckQueueLength(n uint64) error {
	if n > MaxQueueLength {
		return fmt.Errorf("is %d; at most %d are allowed, 0 is unlimited", n, MaxQueueLength)
	}
	return nil
}

// CheckRetention checks how long settled jobs are kept, in milliseconds: at most MaxRetention. 0 means not
// set; -1 means for ever, and no other negative time is valid.
func CheckRetention(r *Retention) []error {
	var errs []error
	for _, s := range [...]State{Completed, Dead, Cancelled} {
		if err := checkKept(r.Of(s)); err != nil {
			errs = append(errs, fmt.Errorf("%s %w", s.Word(), err))
		}
	}
	return errs
}

// Forever is the retention, in milliseconds, that does not end.
const Forever = -1

func checkKept(ms int64) error {
	switch {
	case ms < Forever:
		return errors.New("is negative; -1 is for ever")
	case ms > MaxRetention.Milliseconds():
		return fmt.Errorf("is %s; jobs are kept for at most %s, or for ever", time.Duration(ms)*time.Millisecond, MaxRetention)
	}
	return nil
}
