package state

import "github.com/corvo/corvo/dataplane/job"

// records checks the batches, the schedules and the waiting dependents. Then it checks that no lock exists
// besides the expected ones.
func (c *checker) records() error {
	if err := checkRows[Batch](c, &batchKind, nil); err != nil {
		return err
	}
	if err := checkRows[job.Blob](c, &payloadKind, func(id [16]byte, _ *job.Blob) error {
		b, err := c.v.Batch(id)
		if err == nil && b == nil {
			c.report("batch %x is not there and its callback's payload is", id)
		}
		return err
	}); err != nil {
		return err
	}
	if err := checkRows[Schedule](c, &scheduleKind, func(id [16]byte, s *Schedule) error {
		return c.lock(lockName{LockScheduleName, "", s.Name}, id)
	}); err != nil {
		return err
	}
	if err := c.checkDependents(); err != nil {
		return err
	}
	n := uint64(0)
	for _, err := range scanKeys(c.v.snap, []byte{prefixLock}, afterPrefix(prefixLock)) {
		if err != nil {
			return err
		}
		n++
	}
	if n != c.locks || n != c.v.head.LockRecords {
		c.report("there are %d locks, there should be %d, the head says %d", n, c.locks, c.v.head.LockRecords)
	}
	return nil
}

// lock checks that a lock exists and has the owner.
func (c *checker) lock(name lockName, id [16]byte) error {
	c.locks++
	value, err := (&Lock{JobId: id[:]}).MarshalVT()
	if err != nil {
		return err
	}
	return c.expect(appendLockKey(nil, name), value)
}

// members checks that the list of members is one that the op could have put.
func (c *checker) members() error {
	list, err := c.v.Members()
	if err != nil || list == nil {
		return err
	}
	if list.Epoch == 0 || list.Generation == 0 || len(list.Members)%2 == 0 {
		c.report("the list of members has epoch %d, generation %d and %d members", list.Epoch, list.Generation, len(list.Members))
	}
	return nil
}
