package server

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/api/text"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/server/convert"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/tenancy"
)

// The audit log is read from the stores and not from the views, because it needs no index: its records have
// numbers without gaps, and their times never fall as the numbers rise. The stores also have each hash as it
// was written.

const (
	// auditScan is the maximum number of records that one page examines, so that a page whose filter matches
	// few records ends with a cursor and not with a timeout.
	auditScan = 10_000
	// exportWrite is the time that a client of an export has to read one page.
	exportWrite = 30 * time.Second
)

// jsonLines is the content type of an export.
const jsonLines = "application/x-ndjson"

var auditQuery = append([]serve.Param{
	{Name: "principal", Doc: "id of the API key that made the request"},
	{Name: "method", Doc: "HTTP method, such as POST, or other"},
	{Name: "path", Doc: "prefix of the request path, such as /api/v1/queues/"},
	{Name: "status", Doc: "HTTP status, such as 403, or a class, such as 4xx"},
	{Name: "after", Doc: "earliest time (inclusive), RFC 3339"},
	{Name: "before", Doc: "latest time (exclusive), RFC 3339"},
	{Name: "order", Doc: "order by time: desc or asc; default desc, for an export asc"},
	{Name: "limit", Doc: "records on a page, from 1 to 1000; default 50"},
	{Name: "cursor", Doc: "cursor of the next page, from the answer before"},
	{Name: "format", Doc: "jsonl: all matching records, one a line, oldest first; the same as Accept: " + jsonLines},
}, read...)

func (s *Server) auditRoutes() []serve.Route {
	return []serve.Route{
		{Method: "GET", Path: "/api/v1/audit-logs", Permission: tenancy.NodeAdmin, Handler: s.searching(s.listAudit), Query: auditQuery,
			Summary: "List audit records of management writes and refused requests", Response: api.AuditPage{}},
		{Method: "GET", Path: "/api/v1/audit-logs/head", Permission: tenancy.NodeAdmin, Handler: s.auditHead, Query: read,
			Summary: "Get the head of each shard's audit log", Response: api.AuditHeads{}},
	}
}

// beginAudit begins a read of the audit log, as fresh as the request asks on every shard.
func (s *Server) beginAudit(r *http.Request) (request, error) {
	q, err := s.begin(r, nil)
	if err != nil {
		return q, err
	}
	return q, s.awaitState(r, &q, q.shards.All()...)
}

func (s *Server) auditHead(w http.ResponseWriter, r *http.Request) error {
	q, err := s.beginAudit(r)
	if err != nil {
		return err
	}
	heads := api.AuditHeads{Shards: make([]api.AuditHead, q.shards.Count())}
	for i, c := range q.shards.All() {
		heads.Shards[i] = convert.ToAuditHead(c.Shard(), c.State().Head().GetAudit())
	}
	return serve.WriteJSON(w, http.StatusOK, heads)
}

func (s *Server) listAudit(w http.ResponseWriter, r *http.Request) error {
	q, err := s.beginAudit(r)
	if err != nil {
		return err
	}
	f, err := readAuditFilter(r, &q)
	if err != nil {
		return err
	}
	if f.lines {
		return exportAudit(w, &q, f)
	}
	page, places, err := f.page(q.shards.All())
	if err != nil {
		return err
	}
	out := api.AuditPage{Records: page, HasMore: places != nil}
	if places != nil {
		out.Cursor = f.cursor(places)
	}
	return serve.WriteJSON(w, http.StatusOK, out)
}

// exportAudit writes the matching records that exist when it begins, from the cursor on, and ignores the
// limit. It reads them page by page, each from a snapshot of its own, so that a slow client does not hold a
// snapshot open. It leaves out records that are trimmed in the meantime.
func exportAudit(w http.ResponseWriter, q *request, f *auditFilter) error {
	f.limit = job.MaxSearchLimit
	f.until = make([]uint64, q.shards.Count())
	for i, c := range q.shards.All() {
		_, f.until[i] = c.State().Head().GetAudit().Records()
	}
	w.Header().Set("Content-Type", jsonLines)
	control := http.NewResponseController(w)
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	for {
		page, places, err := f.page(q.shards.All())
		if err != nil {
			return err
		}
		line.Reset()
		for i := range page {
			if err := encoder.Encode(&page[i]); err != nil {
				return err
			}
		}
		// A writer without deadlines, such as a test's, writes without one.
		_ = control.SetWriteDeadline(time.Now().Add(exportWrite))
		if _, err := w.Write(line.Bytes()); err != nil || places == nil {
			return err
		}
		if err := control.Flush(); err != nil {
			return err
		}
		f.places = places
	}
}

// auditFilter selects records and says where the page begins.
type auditFilter struct {
	principal, method, path string
	status                  [2]uint32 // the lowest and the highest; 0 = any
	after, before           int64     // Unix ns; after is included, before is not; 0 = any
	desc, lines             bool
	limit                   int
	places                  []uint64 // the number of the page's first record on each shard; nil = the first page
	until                   []uint64 // the first number to leave out on each shard; nil = no bound
	bound                   [8]byte  // the digest that binds a cursor to this filter
}

func readAuditFilter(r *http.Request, q *request) (*auditFilter, error) {
	query := r.URL.Query()
	f := &auditFilter{
		principal: query.Get("principal"), path: query.Get("path"),
		desc: true, limit: job.DefaultSearchLimit,
	}
	var faults convert.Faults
	f.lines = query.Get("format") == "jsonl" || query.Get("format") == "" && strings.Contains(r.Header.Get("Accept"), jsonLines)
	if word := query.Get("format"); word != "" && word != "jsonl" && word != "json" {
		faults.Invalid("format", "is %s: use json or jsonl", text.Quote(word))
	}
	switch word := query.Get("order"); word {
	case "desc", "":
		f.desc = !f.lines
		if word == "desc" && f.lines {
			faults.Invalid("order", "is desc: an export is oldest first")
		}
	case "asc":
		f.desc = false
	default:
		faults.Invalid("order", "is %s: use asc or desc", text.Quote(word))
	}
	f.after = readInstant(&faults, "after", query.Get("after"))
	f.before = readInstant(&faults, "before", query.Get("before"))
	f.readMethod(&faults, query.Get("method"))
	f.readStatus(&faults, query.Get("status"))
	if given := query.Get("limit"); given != "" {
		n, err := strconv.Atoi(given)
		if err != nil || n < 1 || n > job.MaxSearchLimit {
			faults.Invalid("limit", "is %s: a whole number from 1 to %d", text.Quote(given), job.MaxSearchLimit)
		}
		f.limit = n
	}
	if err := faults.Err(); err != nil {
		return nil, err
	}
	return f, f.readCursor(query.Get("cursor"), q)
}

// readInstant parses a time into Unix nanoseconds. It returns 0 for an empty text. For a wrong text it adds a
// fault and returns 0.
func readInstant(faults *convert.Faults, name, text string) int64 {
	at, ok, err := api.Time(text).Parse()
	if err != nil {
		faults.Invalid(name, "%v", err)
	}
	if !ok {
		return 0
	}
	return api.UnixNs(at)
}

// readMethod parses a method in upper or lower case into the form that the log stores.
func (f *auditFilter) readMethod(faults *convert.Faults, given string) {
	if given == "" {
		return
	}
	if f.method = knownMethod(strings.ToUpper(given)); f.method == otherMethod && !strings.EqualFold(given, otherMethod) {
		faults.Invalid("method", "is %s: use GET, HEAD, POST, PUT, PATCH or DELETE, or %s for any that is none of them", text.Quote(given), otherMethod)
	}
}

// readStatus parses a status or a class of statuses.
func (f *auditFilter) readStatus(faults *convert.Faults, given string) {
	if given == "" {
		return
	}
	digits := given
	class := len(given) == 3 && strings.HasSuffix(given, "xx")
	if class {
		digits = given[:1] + "00"
	}
	n, err := strconv.ParseUint(digits, 10, 32)
	if err != nil || n < 100 || n > 599 {
		faults.Invalid("status", "is %s: use one such as 403, or 4xx", text.Quote(given))
		return
	}
	f.status = [2]uint32{uint32(n), uint32(n)}
	if class {
		f.status[1] += 99
	}
}

// auditCursor is the content of a cursor. Clients treat it as opaque, but it contains no secret.
type auditCursor struct {
	Bound  []byte   `json:"b"`
	Places []uint64 `json:"p"`
}

// readCursor sets f.bound and takes the page's start from a cursor; "" means the first page. The error is
// VALIDATION_ERROR if the cursor comes from another filter, order, namespace, number of shards or incarnation
// of the home shard.
func (f *auditFilter) readCursor(text string, q *request) error {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %v %d %d %t %x %q", f.principal, f.method, f.path, f.status, f.after, f.before, f.desc,
		q.shards.Home().State().Head().GetIncarnation(), q.who.Namespace))
	copy(f.bound[:], sum[:])
	if text == "" {
		return nil
	}
	var c auditCursor
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(data, &c)
	}
	if err != nil || !bytes.Equal(c.Bound, f.bound[:]) || len(c.Places) != q.shards.Count() {
		return api.Errorf(api.ValidationError, "the cursor belongs to another list: send it with the filter and order of its page, or start without a cursor")
	}
	f.places = c.Places
	return nil
}

func (f *auditFilter) cursor(places []uint64) string {
	data, _ := json.Marshal(auditCursor{f.bound[:], places}) // numbers and bytes always encode
	return base64.RawURLEncoding.EncodeToString(data)
}

func (f *auditFilter) matches(r *state.AuditRecord) bool {
	switch {
	case f.principal != "" && r.Principal != f.principal,
		f.method != "" && r.Method != f.method,
		!strings.HasPrefix(r.Path, f.path),
		f.status[0] != 0 && (r.Status < f.status[0] || r.Status > f.status[1]):
		return false
	}
	return true
}

// page returns the next page and the start of the page after it, or nil places if no record follows. It
// merges the records of the shards in the order of their times, and ends the page early after auditScan
// records.
func (f *auditFilter) page(cells []*cell.Cell) (records []api.AuditRecord, places []uint64, err error) {
	logs := make([]*auditLog, len(cells))
	for i, c := range cells {
		logs[i] = &auditLog{shard: c.Shard(), snap: c.State().Snapshot()}
		defer func() { err = errors.Join(err, logs[i].snap.Close()) }()
		if err := logs[i].begin(f, i); err != nil {
			return nil, nil, err
		}
	}
	records = []api.AuditRecord{}
	for range auditScan {
		log, err := f.next(logs)
		if err != nil {
			return nil, nil, err
		}
		if log == nil {
			return records, nil, nil
		}
		if len(records) == f.limit {
			break
		}
		if r := log.record; f.matches(r) {
			previous, err := log.before(r.Seq)
			if err != nil {
				return nil, nil, err
			}
			records = append(records, convert.ToAuditRecord(log.shard, r, previous))
		}
		log.step(f.desc)
	}
	places = make([]uint64, len(logs))
	for i, log := range logs {
		places[i] = log.at
	}
	return records, places, nil
}

// next returns the log whose next record comes first in the order of times, or nil at the end of all logs.
func (f *auditFilter) next(logs []*auditLog) (*auditLog, error) {
	var best *auditLog
	for _, log := range logs {
		if err := log.load(); err != nil {
			return nil, err
		}
		switch {
		case log.record == nil:
		case best == nil,
			!f.desc && log.record.ClockNs < best.record.ClockNs,
			f.desc && log.record.ClockNs >= best.record.ClockNs:
			best = log
		}
	}
	return best, nil
}

// auditLog reads the audit log of one shard.
type auditLog struct {
	shard    uint32
	snap     *state.Snapshot
	from, to uint64 // the requested numbers: [from, to)
	at       uint64 // the number of the next record; outside [from, to) at the end
	record   *state.AuditRecord
	passed   *state.AuditRecord // the record that step left last; nil at the start
}

// begin moves to the first record of a page.
func (l *auditLog) begin(f *auditFilter, i int) (err error) {
	l.from, l.to = l.snap.Head().GetAudit().Records()
	if f.until != nil {
		l.to = max(l.from, min(l.to, f.until[i]))
	}
	first, next := l.from, l.to
	if f.after != 0 {
		if l.from, err = l.since(first, next, f.after); err != nil {
			return err
		}
	}
	if f.before != 0 {
		if l.to, err = l.since(first, next, f.before); err != nil {
			return err
		}
	}
	switch {
	case f.places != nil && f.desc:
		l.at = min(f.places[i], l.to-1)
	case f.places != nil:
		l.at = max(f.places[i], l.from)
	case f.desc:
		l.at = l.to - 1
	default:
		l.at = l.from
	}
	return nil
}

// since returns the number of the first record of [first, next) that is not earlier than ns, or next if there
// is none.
func (l *auditLog) since(first, next uint64, ns int64) (uint64, error) {
	var failed error
	n := sort.Search(int(next-first), func(i int) bool {
		r, err := l.snap.Audit(first + uint64(i))
		failed = errors.Join(failed, err)
		return r == nil || r.ClockNs >= ns
	})
	return first + uint64(n), failed
}

// load reads the next record, unless it has been read or the log has ended.
func (l *auditLog) load() (err error) {
	if l.record != nil || l.at < l.from || l.at >= l.to {
		return nil
	}
	if l.record, err = l.snap.Audit(l.at); err == nil && l.record == nil {
		err = fmt.Errorf("shard %d has no audit record %d", l.shard, l.at)
	}
	return err
}

func (l *auditLog) step(desc bool) {
	l.passed, l.record = l.record, nil
	if desc {
		l.at--
	} else {
		l.at++
	}
}

// before returns the hash of the record before seq.
func (l *auditLog) before(seq uint64) ([]byte, error) {
	if l.passed != nil && l.passed.Seq == seq-1 {
		return l.passed.Hash, nil
	}
	chain := l.snap.Head().GetAudit()
	if first, _ := chain.Records(); seq == first {
		return chain.Before(), nil
	}
	r, err := l.snap.Audit(seq - 1)
	if err == nil && r == nil {
		err = fmt.Errorf("shard %d has no audit record %d", l.shard, seq-1)
	}
	return slices.Clone(r.GetHash()), err
}
