package job

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"
)

// ScheduleIDPrefix starts the API form of every schedule's id. The rest has the form of a job id with the
// slot of the queue that the schedule was created for.
const ScheduleIDPrefix = "sched_"

// MissedAfter is the delay after which a run counts as missed. It is longer than any failover, so that a
// change of leader costs no schedule a run.
const MissedAfter = time.Minute

// ScheduleIDText returns the API form of a schedule's id.
func ScheduleIDText(id ID) string {
	return ScheduleIDPrefix + strings.TrimPrefix(id.String(), IDPrefix)
}

// ParseScheduleID converts the text of ScheduleIDText back. It accepts lower case.
func ParseScheduleID(s string) (ID, error) {
	text, ok := strings.CutPrefix(s, ScheduleIDPrefix)
	if !ok {
		return ID{}, fmt.Errorf("%q is not a schedule's id: it starts with %q", s, ScheduleIDPrefix)
	}
	return ParseID(IDPrefix + text)
}

// RunID returns the id of the job that a schedule creates in a queue for its run at runNs. Every proposer
// computes the same id, so a run creates one job.
func RunID(schedule ID, queue string, runNs int64) ID {
	sum := runHash(schedule, runNs)
	return NewID(runNs/int64(time.Millisecond), queue, Entropy(sum[:len(Entropy{})]))
}

// RunDelay returns the delay of a run's job after its time, in nanoseconds: from 0 to jitterMs milliseconds.
// The delay is a hash of the schedule and the run, so that every replica computes the same delay and the
// schedules of one minute do not all begin in its first second.
func RunDelay(schedule ID, runNs, jitterMs int64) int64 {
	sum := runHash(schedule, runNs)
	ms := binary.BigEndian.Uint64(sum[len(Entropy{}):]) % uint64(jitterMs+1)
	return int64(ms) * int64(time.Millisecond)
}

func runHash(schedule ID, runNs int64) [sha256.Size]byte {
	return sha256.Sum256(binary.BigEndian.AppendUint64(schedule[:], uint64(runNs)))
}

// CheckScheduleName checks a schedule's name: non-empty text in one line, of at most MaxScheduleName bytes.
func CheckScheduleName(name string) error {
	switch {
	case strings.TrimSpace(name) == "":
		return errors.New("is missing; name the schedule")
	case strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return errors.New("has control characters")
	}
	return CheckText(name, MaxScheduleName)
}
