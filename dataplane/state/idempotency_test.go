package state

import "testing"

func TestIdempotency(t *testing.T) {
	t.Parallel()
	s := openClosing(t)
	id := [16]byte{1}
	expect := func(tx *Tx, want string) {
		t.Helper()
		rec, err := tx.Idempotency(id)
		must(t, err)
		got := "none"
		if rec != nil {
			got = string(rec.Result)
		}
		if got != want {
			t.Errorf("the record is %q, want %q", got, want)
		}
	}
	committed := func(want string) {
		t.Helper()
		rec, err := s.Idempotency(id)
		must(t, err)
		if got := string(rec.GetResult()); got != want || (rec == nil) != (want == "") {
			t.Errorf("readers see the record %v, want %q", rec, want)
		}
	}
	counted := func(records, bytes uint64) {
		t.Helper()
		if h := s.Head(); h.IdempotencyRecords != records || h.IdempotencyBytes != bytes {
			t.Errorf("the head counts %d records of %d bytes, want %d of %d", h.IdempotencyRecords, h.IdempotencyBytes, records, bytes)
		}
		check(t, s)
	}
	due := func(nowNs int64, want int) {
		t.Helper()
		ids, err := s.Due(TimerIdempotency, nowNs, 10)
		must(t, err)
		if len(ids) != want {
			t.Errorf("at %d, %d records are due, want %d", nowNs, len(ids), want)
		}
	}
	update(t, s, func(tx *Tx) {
		expect(tx, "none")
		must(t, tx.DeleteIdempotency(id))
		must(t, tx.PutIdempotency(id, &Idempotency{Result: []byte("one"), ExpiresNs: 100}))
		expect(tx, "one")
		must(t, tx.PutIdempotency([16]byte{2}, &Idempotency{Result: []byte("x"), ExpiresNs: 300}))
	})
	counted(2, 4)
	due(99, 0)
	due(100, 1)
	update(t, s, func(tx *Tx) {
		expect(tx, "one")
		must(t, tx.PutIdempotency(id, &Idempotency{Result: []byte("longer"), ExpiresNs: 200}))
		expect(tx, "longer")
		committed("one")
	})
	committed("longer")
	counted(2, 7)
	due(199, 0)
	due(300, 2)
	update(t, s, func(tx *Tx) { // replaced without another time, forgotten, and remembered again in one entry
		must(t, tx.PutIdempotency(id, &Idempotency{Result: []byte("same time"), ExpiresNs: 200}))
		must(t, tx.DeleteIdempotency(id))
		expect(tx, "none")
		must(t, tx.PutIdempotency(id, &Idempotency{Result: []byte("back"), ExpiresNs: 200}))
	})
	counted(2, 5)
	update(t, s, func(tx *Tx) {
		must(t, tx.DeleteIdempotency(id))
		must(t, tx.DeleteIdempotency(id))
		expect(tx, "none")
	})
	committed("")
	counted(1, 1)
	due(299, 0)
	due(300, 1)
}
