package duties

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/op"
)

// The shipped prices are stored once, and again only if the book is newer.
func TestPricesAreSeededOnce(t *testing.T) {
	book, err := op.ShippedPrices()
	if err != nil {
		t.Fatal(err)
	}
	inShardOf(t, Config{FeedKeep: feedKept, UsageKeep: 1 << 40, Prices: book}, func(s *shard) {
		if got := s.store.Head().GetPriceBook(); got != book.Version || !s.store.ResourceIndex().HasPrices() {
			t.Errorf("the store has book %d, want %d", got, book.Version)
		}
		for range 3 {
			s.enqueue(time.Now().Add(time.Second), "")
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		if n := s.seeds(); n != 1 {
			t.Errorf("the book was proposed %d times", n)
		}
	})
}

// The leader proposes the prices again until every member of its shard knows the op.
func TestPricesWaitForTheirLevel(t *testing.T) {
	book, err := op.ShippedPrices()
	if err != nil {
		t.Fatal(err)
	}
	inShardOf(t, Config{FeedKeep: feedKept, UsageKeep: 1 << 40}, func(s *shard) {
		refused := error(api.Errorf(api.Unsupported, "not yet"))
		s.refuse.Store(&refused)
		s.duties.cfg.Prices = book
		s.duties.poke()
		synctest.Wait()
		if n := s.seeds(); n != 1 || s.store.ResourceIndex().HasPrices() {
			t.Errorf("the book was proposed %d times", n)
		}
		s.refuse.Store(nil)
		time.Sleep(seedRetry)
		synctest.Wait()
		if n := s.seeds(); n != 2 || !s.store.ResourceIndex().HasPrices() {
			t.Errorf("the book was proposed %d times", n)
		}
	})
}

// seeds returns the number of price books that the duties have proposed.
func (s *shard) seeds() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.proposed {
		if _, ok := o.(*op.SeedPrices); ok {
			n++
		}
	}
	return n
}
