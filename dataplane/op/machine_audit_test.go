package op_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

func init() {
	builders["record-requests"] = func(s *story, items []item) op.Op {
		o := &op.RecordRequests{Meta: s.meta(items[0])}
		for _, i := range items {
			o.Requests = append(o.Requests, &op.Request{
				Principal: i.text("who", ""), Audit: i.auditOf(s.t, i.text("of", "")), Count: uint64(i.number(s.t, "count", 1)),
			})
		}
		return o
	}
	builders["trim-audit"] = func(s *story, items []item) op.Op {
		return &op.TrimAudit{Meta: s.meta(items[0]), FirstSeq: uint64(items[0].number(s.t, "first", 0))}
	}
	moreValid = append(moreValid,
		func(w *world) op.Op {
			return &op.RecordRequests{Meta: &op.Meta{RequestId: w.newSeed()}, Requests: []*op.Request{{Audit: auditOf("GET", "/p", 401), Count: 1}}}
		},
		func(*world) op.Op { return &op.TrimAudit{FirstSeq: 1} },
	)
	prepare["record-requests"] = func(w *world) op.Op {
		return &op.RecordRequests{Meta: &op.Meta{RequestId: w.newSeed()}, Requests: []*op.Request{
			{Audit: auditOf("GET", "/p", 401), Count: 7}, {Principal: "k", Audit: auditOf("PUT", "/q", 403), Count: 1},
		}}
	}
	prepare["trim-audit"] = func(w *world) op.Op {
		w.apply(prepare["record-requests"](w))
		return &op.TrimAudit{FirstSeq: 2}
	}
	for field, most := range map[string]int{"role": job.MaxAuditRole, "method": job.MaxAuditWord, "path": job.MaxAuditPath, "request_id": job.MaxAuditWord, "remote": job.MaxAuditWord} {
		bounds = append(bounds, bound{"start-term", "meta.audit." + field, most, api.ValidationError, func(o op.Op, n int) {
			a := auditOf("GET", "/p", 200)
			m := a.ProtoReflect()
			m.Set(m.Descriptor().Fields().ByName(protoreflect.Name(field)), protoreflect.ValueOfString(long(n)))
			o.(*op.StartTerm).Meta = &op.Meta{Audit: a}
		}})
	}
	bounds = append(bounds, bound{"record-requests", "requests", job.MaxAuditRequests, api.ValidationError, func(o op.Op, n int) {
		r := o.(*op.RecordRequests)
		for len(r.Requests) < n {
			r.Requests = append(r.Requests, r.Requests[0])
		}
	}})
}

// bound is a row of bounds.
type bound = struct {
	op, field string
	at        int
	beyond    api.Code
	set       func(o op.Op, n int)
}

func auditOf(method, path string, status uint32) *op.Audit {
	return &op.Audit{Role: "admin", Method: method, Path: path, Status: status, RequestId: "r", Remote: "192.0.2.1"}
}

// audit reads audit=METHOD:path:status of a command, or returns nil.
func (i item) audit(t testing.TB) *op.Audit {
	text, ok := i.settings["audit"]
	if !ok {
		return nil
	}
	return i.auditOf(t, text)
}

func (i item) auditOf(t testing.TB, text string) *op.Audit {
	t.Helper()
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		t.Fatalf("%q is no METHOD:path:status", text)
	}
	var status uint32
	if _, err := fmt.Sscan(parts[2], &status); err != nil {
		t.Fatal(err)
	}
	return auditOf(parts[0], parts[1], status)
}

func (s *story) printAudit() {
	s.snapshot(func(v *state.Snapshot) {
		first, next := v.Head().GetAudit().Records()
		fmt.Fprintf(&s.out, "audit [%d,%d)\n", first, next)
		for _, r := range auditLog(s.t, v) {
			fmt.Fprintf(&s.out, "  %d %q %s %s %d", r.Seq, r.Principal, r.Method, r.Path, r.Status)
			if r.Op != "" {
				fmt.Fprintf(&s.out, " by %s", r.Op)
			}
			if r.Count > 1 {
				fmt.Fprintf(&s.out, " (%d times)", r.Count)
			}
			fmt.Fprintln(&s.out)
		}
	})
}

func auditLog(t testing.TB, v *state.Snapshot) (all []*state.AuditRecord) {
	t.Helper()
	first, next := v.Head().GetAudit().Records()
	for seq := first; seq < next; seq++ {
		r, err := v.Audit(seq)
		if err != nil || r == nil {
			t.Fatalf("audit record %d: %v, %v", seq, r, err)
		}
		all = append(all, r)
	}
	return all
}

// audited makes an op one that is recorded.
func audited(w *world, o op.Op) op.Op {
	m := o.ProtoReflect()
	meta := m.Mutable(m.Descriptor().Fields().ByName("meta")).Message().Interface().(*op.Meta)
	meta.Audit = auditOf("POST", "/path", 201)
	meta.Principal = "k1"
	if len(meta.RequestId) == 0 {
		meta.RequestId = w.newSeed()
	}
	return o
}

// Every kind of op is recorded once, however often a client that has lost the answer repeats it.
func TestRepeatsAreRecordedOnce(t *testing.T) {
	t.Parallel()
	for _, k := range op.Kinds() {
		if k.Repeats == op.RepeatNever {
			continue
		}
		for name, apply := range manners {
			t.Run(k.Name+" "+name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				o := audited(w, prepare[k.Name](w))
				apply(w, o, 2)
				w.check()
				w.checkReplica()
				snapshot := w.store.Snapshot()
				defer snapshot.Close()
				recorded := slices.DeleteFunc(auditLog(t, snapshot), func(r *state.AuditRecord) bool { return r.Op != k.Name })
				if len(recorded) != 1 || recorded[0].Status != 201 || recorded[0].Principal != "k1" {
					t.Errorf("the log has %v", recorded)
				}
			})
		}
	}
}

// A record is in the commit of its op, or neither is there: a replica that is stopped
// after any entry and goes on has the same log as one that was not.
func TestRecordsAreInTheCommitOfTheirOps(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 20 {
		w.apply(
			audited(w, &op.SetQueue{Queue: fmt.Sprint("q", i)}),
			audited(w, &op.RevokeKey{Id: "nobody"}), // refused
			w.newJobs("q", 1),
		)
		if i%3 == 0 {
			w.restart()
		}
		w.check()
		snapshot := w.store.Snapshot()
		log := auditLog(t, snapshot)
		if len(log) != 2*(i+1) {
			t.Fatalf("after entry %d the log has %d records", i+1, len(log))
		}
		if made, refused := log[2*i], log[2*i+1]; made.Op != "set-queue" || made.Status != 201 || refused.Status != 404 {
			t.Errorf("after entry %d the last records are %v and %v", i+1, made, refused)
		}
		if err := snapshot.Close(); err != nil {
			t.Fatal(err)
		}
	}
	w.checkReplica()
}

// Ops without an audit field are not recorded.
func TestOtherOpsAreNotRecorded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.busy()
	if head := w.store.Head(); head.Audit != nil {
		t.Errorf("the audit log is at %v", head.Audit)
	}
}

// The hash of a record is, byte by byte, the one that API.md promises.
func TestAuditHashIsPermanent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := audited(w, &op.SetQueue{Queue: "q"}).(*op.SetQueue)
	o.Meta.RequestId = bytes.Repeat([]byte{7}, 16)
	w.apply(o, proto.Clone(o).(*op.SetQueue))
	snapshot := w.store.Snapshot()
	defer snapshot.Close()
	r := auditLog(t, snapshot)[0]
	const want = "b6d46a7a7bdaa605587bba85f02b17500884f783a6bc8620f5be4a2a048e4cac"
	if got := hex.EncodeToString(r.Hash); got != want {
		t.Errorf("the hash of %v is %s, was %s", r, got, want)
	}
}

// A trimmed audit log passes the check, also after a restart and if no record is left.
func TestTrimmedLogVerifies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 5 {
		w.apply(audited(w, &op.SetQueue{Queue: "q"}))
	}
	for _, first := range []uint64{3, 6} {
		w.apply(&op.TrimAudit{FirstSeq: first})
		w.restart()
		w.check()
	}
	w.apply(audited(w, &op.SetQueue{Queue: "q"}))
	w.check()
	w.checkReplica()
	// A trim cannot remove the records of its own entry.
	got := w.apply(audited(w, &op.Promote{JobIds: [][]byte{make([]byte, 16)}}), &op.TrimAudit{FirstSeq: 8})
	if err, ok := got[1].(error); !ok || api.CodeOf(err) != api.StateConflict {
		t.Errorf("answered %v", got[1])
	}
}
