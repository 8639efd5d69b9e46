package job

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"
)

// The checks below examine one value each and describe the fault in words that a client can act on. The
// caller names the field.

// CheckQueueName checks a queue's name from a client with CheckStoredQueueName and CheckReachable.
func CheckQueueName(name string) error {
	if err := CheckStoredQueueName(name); err != nil {
		return err
	}
	return CheckReachable(name)
}

// CheckReachable refuses names that a URL path cannot contain. Clients and servers remove "." and ".." from
// paths, so nothing could read or delete a resource with such a name.
func CheckReachable(name string) error {
	if name == "." || name == ".." {
		return fmt.Errorf(`is %q, which paths cannot hold, so that nothing could reach it: any name but "." and ".." will do`, name)
	}
	return nil
}

// CheckStoredQueueName checks a queue's name in an op: 1 to MaxQueueName characters, each a letter, a digit,
// or one of "._:-". It accepts names that are not reachable, because stores and other shards may have them
// from before they were refused.
func CheckStoredQueueName(name string) error {
	if name == "" {
		return errors.New("is missing; name a queue")
	}
	if len(name) > MaxQueueName {
		return fmt.Errorf("has %d characters; a queue's name has at most %d", len(name), MaxQueueName)
	}
	for i := range len(name) {
		if !isQueueByte(name[i]) {
			return fmt.Errorf("%q has characters other than letters, digits and \"._:-\"", name)
		}
	}
	return nil
}

// CheckProviderName checks the name of a provider of models, which has the form of a queue's name.
func CheckProviderName(name string) error {
	switch {
	case name == "":
		return errors.New("is missing; name a provider")
	case len(name) > MaxLabel:
		return fmt.Errorf("has %d characters; a provider's name has at most %d", len(name), MaxLabel)
	}
	for i := range len(name) {
		if !isQueueByte(name[i]) {
			return fmt.Errorf("%q has characters other than letters, digits and \"._:-\"", name)
		}
	}
	return nil
}

func isQueueByte(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	return c == '.' || c == '_' || c == ':' || c == '-'
}

// CheckText checks an optional text: valid UTF-8 of at most max bytes.
func CheckText(s string, max int) error {
	if len(s) > max {
		return fmt.Errorf("has %d bytes; at most %d are allowed", len(s), max)
	}
	return CheckUTF8(s)
}

// CheckUTF8 checks that a text is UTF-8.
func CheckUTF8(s string) error {
	if !utf8.ValidString(s) {
		return errors.New("is not valid UTF-8")
	}
	return nil
}

// CheckSeal checks the sealing fields of a sealed document.
func CheckSeal(b *Blob) error {
	if len(b.GetKeyId()) > MaxSealKeyID || len(b.GetNonce()) > MaxSealNonce {
		return fmt.Errorf("is sealed with a key id of %d bytes and a nonce of %d; at most %d and %d are allowed",
			len(b.GetKeyId()), len(b.GetNonce()), MaxSealKeyID, MaxSealNonce)
	}
	return CheckUTF8(b.GetKeyId())
}

// CheckTags checks a job's tags: at most MaxTags, sorted by name, each name once.
func CheckTags(tags []*Pair) []error {
	return checkPairs(tags, MaxTags, MaxTagName, MaxTagValue)
}

// CheckHeaders checks a job's headers: at most MaxHeaders, sorted by name, each name once.
func CheckHeaders(headers []*Pair) []error {
	return checkPairs(headers, MaxHeaders, MaxHeaderName, MaxHeaderValue)
}

func checkPairs(pairs []*Pair, most, mostName, mostValue int) []error {
	if len(pairs) > most {
		// The pairs are not checked one by one, because there may be any number of them.
		return []error{fmt.Errorf("has %d entries; at most %d are allowed", len(pairs), most)}
	}
	var errs []error
	for i, p := range pairs {
		name := p.GetName()
		if name == "" {
			errs = append(errs, errors.New("has an entry without a name"))
		} else if err := CheckText(name, mostName); err != nil {
			errs = append(errs, fmt.Errorf("has an entry whose name %w", err))
		} else if i > 0 && name <= pairs[i-1].GetName() {
			errs = append(errs, fmt.Errorf("has %q twice or out of order; names are sorted and unique", name))
		}
		if err := CheckText(p.GetValue(), mostValue); err != nil {
			errs = append(errs, fmt.Errorf("has a value of %.*q that %w", mostName, name, err))
		}
	}
	return errs
}

// CheckRetry checks a job's complete retry policy. The caller must have filled in the defaults.
func CheckRetry(r *Retry) []error {
	var errs []error
	if n := r.GetMaxAttempts(); n < 1 || n > MaxAttempts {
		errs = append(errs, fmt.Errorf("max_retries is %d; it counts attempts, from 1 to %d", n, MaxAttempts))
	}
	if b := r.GetBackoff(); b < BackoffNone || b > BackoffExponential {
		errs = append(errs, fmt.Errorf("retry_backoff is %q; use none, fixed, linear or exponential", b.Word()))
	}
	if n := r.GetJitterPercent(); n > 100 {
		errs = append(errs, fmt.Errorf("jitter_percent is %d; it lies between 0 and 100 percent", n))
	}
	if err := checkDelay("retry_base_delay", r.GetBaseDelayMs()); err != nil {
		errs = append(errs, err)
	}
	if err := checkDelay("retry_max_delay", r.GetMaxDelayMs()); err != nil {
		errs = append(errs, err)
	}
	if n := r.GetJitterPercent(); n > MaxJitterPercent {
		errs = append(errs, fmt.Errorf("retry_jitter_percent is %d; it lies between 0 and %d", n, MaxJitterPercent))
	}
	return errs
}

func checkDelay(name string, ms int64) error {
	if ms < 0 || ms > MaxRetryDelay.Milliseconds() {
		return fmt.Errorf("%s is %d ms; it lies between 0 and %s", name, ms, MaxRetryDelay)
	}
	return nil
}

// CheckLeaseLength checks a lease's length in milliseconds: more than 0 and at most MaxLease.
func CheckLeaseLength(ms int64) error {
	if ms < 1 || ms > MaxLease.Milliseconds() {
		return fmt.Errorf("is %d ms; a lease lasts from 1 ms to %s", ms, MaxLease)
	}
	return nil
}

// CheckSchedule checks a due time against the clock, both in Unix nanoseconds: it lies at most MaxSchedule
// ahead. Zero and the past mean now.
func CheckSchedule(scheduledNs, clockNs int64) error {
	if scheduledNs < 0 {
		return errors.New("lies before 1970")
	}
	if ahead := time.Duration(scheduledNs - clockNs); clockNs >= 0 && ahead > MaxSchedule {
		return fmt.Errorf("lies %s ahead; at most %s are allowed", ahead, MaxSchedule)
	}
	return nil
}

// NewRetry returns the default retry policy of an enqueue.
func NewRetry() *Retry {
	r := &Retry{}
	r.Fill()
	return r
}

// Fill sets r to the result of NewRetry.
func (r *Retry) Fill() {
	*r = Retry{
		MaxAttempts: DefaultMaxAttempts,
		Backoff:     BackoffExponential,
		BaseDelayMs: DefaultRetryBaseDelay.Milliseconds(),
		MaxDelayMs:  DefaultRetryMaxDelay.Milliseconds(),
	}
}
