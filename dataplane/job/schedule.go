package job

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"
)

// ScheduleIDPrefix starts every schedule's id as clients see it; otherwise it looks
// like a job's, and its slot is that of the queue it was made for.
const ScheduleIDPrefix = "sched_"

// MissedAfter is how late a run may be made without having been missed. It is
// longer than any failover, so that a change of leader costs no schedule a run.
const MissedAfter = time.Minute

// ScheduleIDText is a schedule's id as clients see it.
func ScheduleIDText(id ID) string {
	return ScheduleIDPrefix + strings.TrimPrefix(id.String(), IDPrefix)
}

// ParseScheduleID reads what ScheduleIDText printed; lower case is accepted.
func ParseScheduleID(s string) (ID, error) {
	text, ok := strings.CutPrefix(s, ScheduleIDPrefix)
	if !ok {
		return ID{}, fmt.Errorf("%q is not a schedule's id: it starts with %q", s, ScheduleIDPrefix)
	}
	return ParseID(IDPrefix + text)
}

// RunID is the id of the job that a schedule makes in a queue for its run at runNs.
// It is the same whoever makes it and however often: a run makes one job.
func RunID(schedule ID, queue string, runNs int64) ID {
	sum := runHash(schedule, runNs)
	return NewID(runNs/int64(time.Millisecond), queue, Entropy(sum[:len(Entropy{})]))
}

// RunDelay is how long after its time a run's job is due, in nanoseconds: from
// nothing to jitterMs milliseconds, another one for each run of each schedule, so
// that schedules of the same minute do not all begin in its first second.
func RunDelay(schedule ID, runNs, jitterMs int64) int64 {
	sum := runHash(schedule, runNs)
	ms := binary.BigEndian.Uint64(sum[len(Entropy{}):]) % uint64(jitterMs+1)
	return int64(ms) * int64(time.Millisecond)
}

func runHash(schedule ID, runNs int64) [sha256.Size]byte {
	return sha256.Sum256(binary.BigEndian.AppendUint64(schedule[:], uint64(runNs)))
}

// CheckScheduleName checks a schedule's name: some text in one line.
func CheckScheduleName(name string) error {
	switch {
	case strings.TrimSpace(name) == "":
		return errors.New("is missing; name the schedule")
	case strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return errors.New("has control characters")
	}
	return CheckText(name, MaxScheduleName)
}
