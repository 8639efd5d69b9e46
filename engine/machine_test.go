package engine_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/durable"
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/image"
	"github.com/corvo/corvo/engine/pipeline"
	"github.com/corvo/corvo/engine/replica"
)

// These are the ops of the test machine, with numbers of its own.
const (
	opStartTerm entry.Number = 1 + iota
	opAdd                    // adds 1 to a counter; the result is the new value
	opRefuse                 // the result is a refusal
	opBreak                  // makes Apply fail
	opNilResult              // the result is a typed nil
	opOnce                   // adds 1 to a counter unless an op with this key did so before; the result is the value
	opLarge                  // adds 1 to a counter; the result is its value, padded so that it is too large for a message
	opWrite                  // puts a value, "register=n", into a register; the result is the previous value
)

// op is a change of the test machine. Its encoding is the key.
type op struct {
	number  entry.Number
	class   pipeline.Class
	key     string
	invalid bool
}

func add(key string) op { return op{number: opAdd, class: pipeline.ClassEnqueue, key: key} }
func startTerm() engine.Op {
	return op{number: opStartTerm, class: pipeline.ClassSettle}
}

func (o op) Number() entry.Number  { return o.number }
func (o op) Class() pipeline.Class { return o.class }
func (o op) SizeVT() int           { return len(o.key) }

func (o op) Validate() error {
	if o.invalid {
		return errors.New("key is invalid")
	}
	return nil
}

func (o op) MarshalToSizedBufferVT(to []byte) (int, error) { return copy(to, o.key), nil }

// content is the state of the machine, which Flush writes.
type content struct {
	At                 entry.Applied
	ClockNs            int64
	Configuration      []byte
	ConfigurationIndex uint64
	Counters           map[string]int64
	Terms              int      // StartTerm ops applied
	Firsts             []uint64 // index of each StartTerm
}

// machine keeps counters in memory and writes them to a file only when it is flushed. When it is opened
// again, the changes since the last flush are lost.
type machine struct {
	path string

	mu      sync.Mutex
	now     content
	clocks  []int64 // of every entry applied, in order
	crashed bool    // Flush fails from now on
	onApply func(entry.Entry)
	onFlush func()
}

func openMachine(t testing.TB, dir string) *machine {
	t.Helper()
	m := &machine{path: filepath.Join(dir, "machine.dat"), now: content{Counters: map[string]int64{}}}
	data, err := os.ReadFile(m.path)
	if errors.Is(err, os.ErrNotExist) {
		return m
	}
	if err == nil {
		err = json.Unmarshal(data, &m.now)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *machine) Applied() entry.Applied {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now.At
}

func (m *machine) LastClock() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now.ClockNs
}

func (m *machine) counter(key string) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now.Counters[key]
}

func (m *machine) Apply(at entry.Applied, e entry.Entry) ([]any, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.onApply != nil {
		m.onApply(e)
	}
	results := make([]any, len(e.Ops))
	for i, o := range e.Ops {
		switch o.Number {
		case opStartTerm:
			m.now.Terms++
			m.now.Firsts = append(m.now.Firsts, at.Index)
		case opAdd:
			m.now.Counters[string(o.Bytes)]++
			results[i] = m.now.Counters[string(o.Bytes)]
		case opRefuse:
			results[i] = api.Errorf(api.NotFound, "no %s", o.Bytes)
		case opNilResult:
			results[i] = (*api.Error)(nil)
		case opLarge:
			m.now.Counters[string(o.Bytes)]++
			results[i] = large(m.now.Counters[string(o.Bytes)])
		case opOnce:
			results[i] = m.now.applyOnce(string(o.Bytes))
		case opWrite:
			key, value, _ := strings.Cut(string(o.Bytes), "=")
			results[i] = m.now.Counters[key]
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				return nil, err
			}
			m.now.Counters[key] = n
		case opBreak:
			return nil, errors.New("key broken")
		default:
			return nil, fmt.Errorf("op %d is not known", o.Number)
		}
	}
	m.now.At, m.now.ClockNs = at, e.ClockNs
	m.clocks = append(m.clocks, e.ClockNs)
	return results, nil
}

func (m *machine) Configure(at entry.Applied, configuration []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now.At, m.now.Configuration, m.now.ConfigurationIndex = at, configuration, at.Index
	return nil
}

func (m *machine) Configuration() ([]byte, uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now.Configuration, m.now.ConfigurationIndex
}

func (m *machine) Flush() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.crashed {
		return errors.New("crashed")
	}
	data, err := json.Marshal(m.now)
	if err != nil {
		return err
	}
	if err := durable.WriteFile(m.path, data, 0o644); err != nil {
		return err
	}
	if m.onFlush != nil {
		m.onFlush()
	}
	return nil
}

// crash makes the machine lose the changes since the last flush.
func (m *machine) crash() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.crashed = true
}

func (m *machine) Image() (replica.Image, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	data, err := json.Marshal(m.now)
	return &copied{data: data, of: m.now}, err
}

func (m *machine) Restore(from image.Source) error {
	parts := from.Parts()
	if len(parts) != 1 {
		return fmt.Errorf("%d parts", len(parts))
	}
	r, err := from.Open(parts[0].Name)
	if err != nil {
		return err
	}
	data, err := io.ReadAll(image.Verify(parts[0], r))
	if err := errors.Join(err, r.Close()); err != nil {
		return err
	}
	var c content
	if err := json.Unmarshal(data, &c); err != nil {
		return err
	}
	m.mu.Lock()
	m.now = c
	m.mu.Unlock()
	return m.Flush()
}

// copied is an image with one part.
type copied struct {
	data []byte
	of   content
}

func (c *copied) Applied() entry.Applied          { return c.of.At }
func (c *copied) Configuration() ([]byte, uint64) { return c.of.Configuration, c.of.ConfigurationIndex }
func (c *copied) Close() error                    { return nil }

func (c *copied) Parts() []image.Part {
	return []image.Part{{Name: "content", Size: int64(len(c.data)), Sum: sha256.Sum256(c.data)}}
}

func (c *copied) Open(string) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(c.data)), nil
}
