package resultschema

import (
	"container/list"
	"crypto/sha256"
	"sync"
)

// maxCached bounds the compiled schemas that the cache keeps. A schema counts as the bytes of its text and
// perInstruction bytes for each instruction of its regular expressions. The compiled schemas take some tens
// of times as much memory.
const maxCached = 1 << 20

// perInstruction is the number of bytes that one instruction counts against maxCached. A dozen bytes of an
// expression can have a thousand instructions, so the text alone would be no bound.
const perInstruction = 2

// compiled caches the recently used schemas by their text. The meaning of a schema depends only on its text,
// so all namespaces of a process share the cache.
var compiled = newCache(maxCached)

type cache struct {
	mu     sync.Mutex
	most   int // bytes
	bytes  int
	order  list.List // of *cached, used last first
	byHash map[[sha256.Size]byte]*list.Element
}

func newCache(most int) *cache {
	return &cache{most: most, byHash: map[[sha256.Size]byte]*list.Element{}}
}

type cached struct {
	hash   [sha256.Size]byte
	bytes  int
	schema *Schema
}

// get returns a cached schema or makes it now. An invalid schema is not cached. Two callers that ask for one
// new schema at the same time may both make it.
func (c *cache) get(data []byte, make func([]byte) (*Schema, error)) (*Schema, error) {
	hash := sha256.Sum256(data)
	if s := c.look(hash); s != nil {
		return s, nil
	}
	s, err := make(data)
	if err != nil {
		return nil, err
	}
	c.keep(&cached{hash: hash, bytes: len(data) + perInstruction*s.instructions, schema: s})
	return s, nil
}

func (c *cache) look(hash [sha256.Size]byte) *Schema {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byHash[hash]
	if e == nil {
		return nil
	}
	c.order.MoveToFront(e)
	return e.Value.(*cached).schema
}

func (c *cache) keep(s *cached) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byHash[s.hash] != nil {
		return
	}
	c.byHash[s.hash] = c.order.PushFront(s)
	for c.bytes += s.bytes; c.bytes > c.most; {
		last := c.order.Back()
		gone := c.order.Remove(last).(*cached)
		delete(c.byHash, gone.hash)
		c.bytes -= gone.bytes
	}
}
