package transport

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/image"
)

var rpcHeader = raft.RPCHeader{ProtocolVersion: 3, ID: []byte("node-a"), Addr: []byte("10.0.0.1:7001")}

func appendRequest() *raft.AppendEntriesRequest {
	return &raft.AppendEntriesRequest{
		RPCHeader: rpcHeader, Term: 1 << 40, PrevLogEntry: 7, PrevLogTerm: 6, LeaderCommitIndex: 5,
		Entries: []*raft.Log{
			{Index: 8, Term: 6, Type: raft.LogCommand, Data: []byte("data"), Extensions: []byte("ext"), AppendedAt: time.Unix(1700000000, 123456789)},
			{Index: 9, Term: 1<<64 - 1, Type: raft.LogConfiguration},
			{Index: 10, Type: raft.LogNoop, AppendedAt: time.Unix(-5, 1)},
		},
	}
}

func snapshotOffer() offer {
	return offer{
		groupKey: groupKey{"orders", entry.Incarnation{1, 2, 15: 9}},
		request: &raft.InstallSnapshotRequest{
			RPCHeader: rpcHeader, SnapshotVersion: 1, Term: 3, LastLogIndex: 77, LastLogTerm: 2,
			Peers: []byte("p"), Configuration: []byte("configuration"), ConfigurationIndex: 5, Size: 1234,
		},
		parts: []image.Part{{Name: "000001.sst", Size: 1 << 40, Sum: [32]byte{1, 31: 2}}, {Name: "view/a", Size: 0}},
	}
}

// codecs lists the messages for the fuzzer. copy decodes bytes and encodes the message again, if they were
// valid.
var codecs = []struct {
	name string
	seed []byte
	copy func(b []byte) (any, []byte, error)
}{
	{"append request", appendAppendRequest(nil, appendRequest()), func(b []byte) (any, []byte, error) {
		r, err := decodeAppendRequest(b)
		return r, appendAppendRequest(nil, r), err
	}},
	{"append response", appendAppendResponse(nil, &raft.AppendEntriesResponse{RPCHeader: rpcHeader, Term: 1, LastLog: 2, Success: true, NoRetryBackoff: true}), func(b []byte) (any, []byte, error) {
		var r raft.AppendEntriesResponse
		err := decodeAppendResponse(b, &r)
		return r, appendAppendResponse(nil, &r), err
	}},
	{"vote request", appendVoteRequest(nil, &raft.RequestVoteRequest{RPCHeader: rpcHeader, Term: 1, LastLogIndex: 2, LastLogTerm: 3, LeadershipTransfer: true}), func(b []byte) (any, []byte, error) {
		r, err := decodeVoteRequest(b)
		return r, appendVoteRequest(nil, r), err
	}},
	{"vote response", appendVoteResponse(nil, &raft.RequestVoteResponse{RPCHeader: rpcHeader, Term: 1, Peers: []byte("p"), Granted: true}), func(b []byte) (any, []byte, error) {
		var r raft.RequestVoteResponse
		err := decodeVoteResponse(b, &r)
		return r, appendVoteResponse(nil, &r), err
	}},
	{"pre-vote request", appendPreVoteRequest(nil, &raft.RequestPreVoteRequest{RPCHeader: rpcHeader, Term: 1, LastLogIndex: 2, LastLogTerm: 3}), func(b []byte) (any, []byte, error) {
		r, err := decodePreVoteRequest(b)
		return r, appendPreVoteRequest(nil, r), err
	}},
	{"pre-vote response", appendPreVoteResponse(nil, &raft.RequestPreVoteResponse{RPCHeader: rpcHeader, Term: 1, Granted: true}), func(b []byte) (any, []byte, error) {
		var r raft.RequestPreVoteResponse
		err := decodePreVoteResponse(b, &r)
		return r, appendPreVoteResponse(nil, &r), err
	}},
	{"timeout request", appendRPCHeader(nil, rpcHeader), func(b []byte) (any, []byte, error) {
		r, err := decodeTimeoutRequest(b)
		return r, appendRPCHeader(nil, r.RPCHeader), err
	}},
	{"timeout response", appendRPCHeader(nil, rpcHeader), func(b []byte) (any, []byte, error) {
		var r raft.TimeoutNowResponse
		err := decodeTimeoutResponse(b, &r)
		return r, appendRPCHeader(nil, r.RPCHeader), err
	}},
	{"snapshot response", appendSnapshotResponse(nil, &raft.InstallSnapshotResponse{RPCHeader: rpcHeader, Term: 1, Success: true}), func(b []byte) (any, []byte, error) {
		var r raft.InstallSnapshotResponse
		err := decodeSnapshotResponse(b, &r)
		return r, appendSnapshotResponse(nil, &r), err
	}},
	{"offer", snapshotOffer().append(nil), func(b []byte) (any, []byte, error) {
		o, err := decodeOffer(b)
		return o, o.append(nil), err
	}},
	{"missing", appendMissing(nil, []int{0, 3, 9}), func(b []byte) (any, []byte, error) {
		i, err := decodeMissing(b, 10)
		return i, appendMissing(nil, i), err
	}},
	{"group", groupKey{"orders", entry.Incarnation{1}}.append(nil), func(b []byte) (any, []byte, error) {
		k, err := decodeGroupKey(b)
		return k, k.append(nil), err
	}},
	{"hello", hello{Version, "node", forSnapshot, "1.2.3.4:5", []byte("info")}.append(nil), func(b []byte) (any, []byte, error) {
		h, err := decodeHello(b)
		if err != nil && h.version != Version {
			err = malformed("another version")
		}
		return h, h.append(nil), err
	}},
}

func TestMessagesAreRead(t *testing.T) {
	t.Parallel()
	for _, c := range codecs {
		if _, again, err := c.copy(c.seed); err != nil || !bytes.Equal(again, c.seed) {
			t.Errorf("%s: %x, not %x: %v", c.name, again, c.seed, err)
		}
		for n := range c.seed {
			if _, _, err := c.copy(c.seed[:n]); !errors.Is(err, ErrMalformed) {
				t.Errorf("%s cut off at %d: %v", c.name, n, err)
			}
		}
		if _, _, err := c.copy(append(bytes.Clone(c.seed), 0)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s with a byte more: %v", c.name, err)
		}
	}
	got, err := decodeAppendRequest(appendAppendRequest(nil, appendRequest()))
	if err != nil || !reflect.DeepEqual(got, appendRequest()) {
		t.Errorf("%+v, %v", got, err)
	}
	o, err := decodeOffer(snapshotOffer().append(nil))
	if err != nil || !reflect.DeepEqual(o, snapshotOffer()) {
		t.Errorf("%+v, %v", o, err)
	}
}

func FuzzMessage(f *testing.F) {
	for i, c := range codecs {
		f.Add(byte(i), c.seed)
	}
	f.Fuzz(func(t *testing.T, kind byte, b []byte) {
		c := codecs[int(kind)%len(codecs)]
		first, again, err := c.copy(b)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("%s: %v", c.name, err)
			}
			return
		}
		second, _, err := c.copy(again)
		if err != nil || !reflect.DeepEqual(first, second) {
			t.Fatalf("%s: %+v became %+v: %v", c.name, first, second, err)
		}
		if _, err := decodeFault(b); err != nil && !errors.Is(err, ErrMalformed) {
			t.Fatalf("as a fault: %v", err)
		}
		if _, _, _, err := decodeCall(b); err != nil && !errors.Is(err, ErrMalformed) {
			t.Fatalf("as a call: %v", err)
		}
	})
}

func TestFramesAreRead(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, MaxFrame - 1, MaxFrame, MaxFrame + 1, 3*MaxFrame + 5} {
		want := bytes.Repeat([]byte{7}, size)
		b := appendFrames(nil, header{kind: frameCall, request: 1 << 50, group: 9}, want)
		r, in := bytes.NewReader(b), newInbound()
		for frames := 1; ; frames++ {
			h, err := readHeader(r)
			if err != nil {
				t.Fatal(err)
			}
			got, err := in.assemble(r, h)
			if err != nil {
				t.Fatal(err)
			}
			if h.kind != frameCall || h.request != 1<<50 || h.group != 9 {
				t.Fatalf("%+v", h)
			}
			if h.more() {
				continue
			}
			if !bytes.Equal(got, want) || r.Len() > 0 {
				t.Errorf("%d bytes of %d, %d are left", len(got), size, r.Len())
			}
			if in.bytes != 0 || len(in.partials) != 0 {
				t.Errorf("%d bytes of %d messages are kept", in.bytes, len(in.partials))
			}
			if want := max(1, (size+MaxFrame-1)/MaxFrame); frames != want {
				t.Errorf("%d bytes in %d frames, want %d", size, frames, want)
			}
			break
		}
	}
}

func TestMessagesInPiecesAreBounded(t *testing.T) {
	t.Parallel()
	in := newInbound()
	var err error
	payload := make([]byte, MaxFrame)
	give := func(request uint64) {
		_, err = in.assemble(bytes.NewReader(payload), header{kind: frameCall, request: request, length: MaxFrame, flags: flagMore})
	}
	for range MaxMessage / MaxFrame {
		if give(1); err != nil {
			t.Fatal(err)
		}
	}
	if give(1); !errors.Is(err, ErrMalformed) {
		t.Errorf("one frame more than a message has: %v", err)
	}
	for in.bytes+MaxFrame <= maxInbound {
		if give(2); err != nil {
			t.Fatal(err)
		}
	}
	if give(3); !errors.Is(err, ErrMalformed) {
		t.Errorf("one frame more than a connection has: %v", err)
	}
	in.discard(1)
	if give(3); err != nil {
		t.Errorf("what is cancelled counts: %v", err)
	}
	if _, err := in.assemble(bytes.NewReader(payload), header{kind: frameVote, request: 3, length: 1}); !errors.Is(err, ErrMalformed) {
		t.Errorf("a frame of another kind: %v", err)
	}
	if _, err := in.assemble(bytes.NewReader(nil), header{kind: frameVote, request: 9, length: 1}); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a frame cut off: %v", err)
	}
}

func FuzzFrame(f *testing.F) {
	f.Add(appendFrames(nil, header{kind: frameCall, request: 1, group: 2}, []byte("payload")))
	two := header{length: 3, kind: frameCall, request: 5, flags: flagMore}.append(nil)
	two = append(two, "one"...)
	f.Add(append(header{length: 3, kind: frameCall, request: 5}.append(two), "two"...))
	f.Add(appendFrames(nil, header{kind: frameGroup, group: 1}, groupKey{"g", entry.Incarnation{}}.append(nil)))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, in := bytes.NewReader(b), newInbound()
		for {
			h, err := readHeader(r)
			if err == nil {
				var payload []byte
				if payload, err = in.assemble(r, h); err == nil && h.kind == frameGroup {
					err = in.registerGroup(h.group, payload)
				}
			}
			if err == nil {
				continue
			}
			if !errors.Is(err, ErrMalformed) && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatal(err)
			}
			return
		}
	})
}

func TestVersionsRefuseEachOther(t *testing.T) {
	t.Parallel()
	h := hello{Version + 1, "node-b", forMessages, "", nil}
	_, err := decodeHello(append(h.append(nil), "of a later version"...))
	want := fmt.Sprintf(`node "node-b" speaks version %d of the protocol, node here version %d: bring both to the same release`, Version+1, Version)
	if err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
}

func TestGroupNumbersAreBounded(t *testing.T) {
	t.Parallel()
	in := newInbound()
	key := groupKey{"g", entry.Incarnation{}}.append(nil)
	for i := range uint32(maxGroups) {
		if err := in.registerGroup(i+1, key); err != nil {
			t.Fatal(err)
		}
	}
	for _, number := range []uint32{0, 1, maxGroups + 1} {
		if err := in.registerGroup(number, key); !errors.Is(err, ErrMalformed) {
			t.Errorf("number %d: %v", number, err)
		}
	}
}
