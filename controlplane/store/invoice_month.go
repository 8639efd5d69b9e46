package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/tenancy"
)

// rated is what the lines of an invoice are rated from.
type rated struct {
	month monthUsage
	late  []monthUsage // the months of late usage that is on no invoice, in order
	plans []planRow
}

// monthUsage is the usage of an organisation in a month.
type monthUsage struct {
	startNs int64
	usage   []billing.HourUsage
}

// readRated reads what the invoice of a month is rated from. Late usage is part of it if the month is the next one of the
// organisation to be invoiced.
func readRated(q querier, org tenancy.OrgID, startNs int64, next bool) (r rated, err error) {
	if r.plans, err = planHistory(q, org); err != nil {
		return r, err
	}
	if r.month, err = readMonthUsage(q, org, startNs); err != nil || !next {
		return r, err
	}
	months, err := list(q, scalar[int64], "SELECT DISTINCT month_ns FROM usage_late WHERE org = ? AND invoice = 0 ORDER BY month_ns", string(org))
	if err != nil {
		return r, err
	}
	for _, start := range months {
		m, err := readMonthUsage(q, org, start)
		if err != nil {
			return r, err
		}
		r.late = append(r.late, m)
	}
	return r, nil
}

// readMonthUsage sums the usage of a month over queues, because no line of an invoice depends on them. Only the cost is
// summed by model.
func readMonthUsage(q querier, org tenancy.OrgID, startNs int64) (m monthUsage, err error) {
	m.startNs = startNs
	_, end := billing.MonthBefore(startNs + 1)
	// SQLite refuses a sum of more than 63 bits, so that it sums the halves of the quantities.
	m.usage, err = list(q, scanHourUsage, `SELECT hour_ns, namespace, meter, iif(meter = ?1, provider, ''), iif(meter = ?1, model, ''), SUM(quantity >> 31), SUM(quantity & 2147483647)
		FROM usage_hourly WHERE namespace IN (SELECT id FROM namespaces WHERE org = ?2) AND hour_ns >= ?3 AND hour_ns < ?4 GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5`,
		int64(billing.Cost), string(org), startNs, end)
	return m, err
}

func scanHourUsage(rows *sql.Rows) (u billing.HourUsage, err error) {
	var high, low int64
	err = rows.Scan(&u.HourNs, &u.Namespace, &u.Meter, &u.Provider, &u.Model, &high, &low)
	u.Quantity = money.CountOfHalves(high, low)
	return u, err
}

// hash returns the SHA-256 of all that r has. Integers have eight bytes, big-endian; a text follows its length in eight bytes,
// and a quantity is its decimal text. The format is permanent, because invoices store the hash (ADR 0091).
func (r rated) hash() []byte {
	h := sha256.New()
	var buf []byte
	number := func(n int64) { buf = binary.BigEndian.AppendUint64(buf, uint64(n)) }
	text := func(s string) {
		number(int64(len(s)))
		buf = append(buf, s...)
	}
	flush := func() {
		_, _ = h.Write(buf) // a hash never fails
		buf = buf[:0]
	}
	for _, m := range append([]monthUsage{r.month}, r.late...) {
		number(m.startNs)
		number(int64(len(m.usage)))
		for _, u := range m.usage {
			number(u.HourNs)
			number(int64(u.Meter))
			text(u.Namespace)
			text(u.Provider)
			text(u.Model)
			text(u.Quantity.String())
			flush()
		}
	}
	number(int64(len(r.plans)))
	for _, p := range r.plans {
		number(p.fromNs)
		text(string(p.plan))
		text(p.overrides)
	}
	flush()
	return h.Sum(nil)
}

// MonthUsage is what the ledger knows of an organisation's month, at one position of the state.
type MonthUsage struct {
	StartNs, EndNs int64 // the month
	Usage          []billing.HourUsage
	History        []billing.PlanChange
	// Late are the months of late usage that is on no invoice, and Brought is what the last invoice has carried forward. Both
	// are empty unless the month is the next one of the organisation to be invoiced.
	Late    []billing.LateMonth
	Brought money.Nano
	// AsOfNs is the time of the last frame of the organisation's namespaces that was applied or set aside, or of their last
	// correction, whatever its hours; 0 = never.
	AsOfNs int64
	// Credits are the rests of the credits that do not expire before the month ends.
	Credits money.Count
	// RatedHash is the SHA-256 that a FinaliseInvoice with lines of this usage has.
	RatedHash []byte
}

// Rate computes the lines of the month's invoice and its end, and the cost of model calls. Its errors are those of
// billing.Rate.
func (m MonthUsage) Rate(book *billing.PlanBook) (lines []billing.InvoiceLine, sums billing.InvoiceSums, cost billing.LLMCost, err error) {
	if lines, cost, err = m.rateLines(book); err != nil {
		return nil, sums, cost, err
	}
	lines = append(lines, billing.BroughtForward(m.Brought, m.StartNs)...)
	sums, err = billing.SumInvoice(lines, m.Credits)
	return lines, sums, cost, err
}

// rateLines computes the lines that depend on prices, and the cost of model calls.
func (m MonthUsage) rateLines(book *billing.PlanBook) ([]billing.InvoiceLine, billing.LLMCost, error) {
	return billing.RateInvoice(billing.Rating{Month: time.Unix(0, m.StartNs), Usage: m.Usage, History: m.History, Book: book}, m.Late)
}

// Finalise rates the month and returns the op that makes its invoice. Its errors are those of billing.Rate.
func (m MonthUsage) Finalise(meta *Meta, org tenancy.OrgID, book *billing.PlanBook) (*FinaliseInvoice, error) {
	lines, cost, err := m.rateLines(book)
	if err != nil {
		return nil, err
	}
	o := &FinaliseInvoice{Meta: meta, Org: string(org), EndNs: m.EndNs, RatedSha256: m.RatedHash}
	for _, l := range lines {
		o.Lines = append(o.Lines, fromInvoiceLine(l))
	}
	o.LlmCost, err = json.Marshal(cost)
	return o, err
}

// MonthUsage returns the usage of an organisation in the calendar month in UTC around a moment, deleted namespaces included,
// and what else its invoice depends on. It refuses with NOT_FOUND an unknown organisation.
func (s *Store) MonthUsage(ctx context.Context, org tenancy.OrgID, month time.Time) (MonthUsage, error) {
	return read(ctx, s, func(r reader) (MonthUsage, error) {
		start, _ := billing.Month.Window(month, time.UTC)
		return readMonth(r, org, start.UnixNano())
	})
}

func readMonth(r querier, org tenancy.OrgID, startNs int64) (m MonthUsage, err error) {
	m.StartNs, m.EndNs = billing.MonthBefore(startNs + 1)
	namespaces, args, err := usageOf(r, UsageQuery{Org: org})
	if err != nil {
		return m, err
	}
	if m.AsOfNs, err = usageAsOf(r, namespaces, args); err != nil {
		return m, err
	}
	until, err := invoicedUntil(r, org)
	if err != nil {
		return m, err
	}
	next := until == m.StartNs
	from, err := readRated(r, org, m.StartNs, next)
	if err != nil {
		return m, err
	}
	m.Usage, m.RatedHash = from.month.usage, from.hash()
	changes, err := planChanges(r, org)
	if err != nil {
		return m, err
	}
	for _, c := range changes {
		m.History = append(m.History, c.PlanChange)
	}
	for _, late := range from.late {
		l := billing.LateMonth{Month: time.Unix(0, late.startNs), Usage: late.usage}
		if l.Charged, err = chargedLines(r, org, late.startNs); err != nil {
			return m, err
		}
		m.Late = append(m.Late, l)
	}
	if next {
		if m.Brought, err = carriedForward(r, org); err != nil {
			return m, err
		}
	}
	usable, err := usableCredits(r, org, m.EndNs)
	for _, c := range usable {
		m.Credits = m.Credits.Add(money.CountOf(int64(c.Rest)))
	}
	return m, err
}

// invoicedUntil returns the start of the first month of an organisation that has no invoice. Before the first invoice that
// is the month of the organisation's creation.
func invoicedUntil(q querier, org tenancy.OrgID) (int64, error) {
	until, err := number(q, "SELECT COALESCE(MAX(end_ns), 0) FROM invoices WHERE org = ?", string(org))
	if err != nil || until != 0 {
		return until, err
	}
	created, found, err := first(q, scalar[int64], "SELECT created_ns FROM orgs WHERE id = ?", string(org))
	if err == nil && !found {
		err = noOrg(string(org))
	}
	start, _ := billing.MonthBefore(created + 1)
	return start, err
}

// carriedForward returns what the last invoice of an organisation has carried forward.
func carriedForward(q querier, org tenancy.OrgID) (money.Nano, error) {
	n, err := number(q, "SELECT carried FROM invoices WHERE org = ? ORDER BY end_ns DESC LIMIT 1", string(org))
	return money.Nano(n), err
}

// chargedLines lists the lines of all invoices of an organisation that are about the usage of a month.
func chargedLines(q querier, org tenancy.OrgID, monthNs int64) (lines []billing.Line, err error) {
	all, err := list(q, scanInvoiceLine, selectInvoiceLine+" JOIN invoices i ON i.number = l.number WHERE i.org = ? AND i.end_ns > ? AND l.month_ns = ? AND l.item <> ? ORDER BY l.number, l.position",
		string(org), monthNs, monthNs, billing.ItemBroughtForward)
	for _, l := range all {
		lines = append(lines, l.Line)
	}
	return lines, err
}

// usableCredits lists the credits with a rest of an organisation that the invoice of a month may use, those that expire first
// come first.
func usableCredits(q querier, org tenancy.OrgID, endNs int64) ([]Credit, error) {
	return list(q, scanCredit, selectCredit+` WHERE org = ? AND currency = ? AND rest > 0 AND (expires_ns = 0 OR expires_ns >= ?)
		ORDER BY expires_ns = 0, expires_ns, id`, string(org), billing.USD, endNs)
}

// DueInvoice is a month of an organisation that is over and has no invoice.
type DueInvoice struct {
	Org   tenancy.OrgID
	EndNs int64
}

// DueInvoices lists, by organisation, the next months to be invoiced of the organisations with an id above after, if they
// are over at a time: at most limit, and at most MaxPage.
func (s *Store) DueInvoices(ctx context.Context, now time.Time, after tenancy.OrgID, limit int) ([]DueInvoice, error) {
	return read(ctx, s, func(r reader) (due []DueInvoice, err error) {
		start, _ := billing.Month.Window(now, time.UTC)
		type dueRow struct {
			org     tenancy.OrgID
			startNs int64
		}
		rows, err := list(r, func(rows *sql.Rows) (d dueRow, err error) {
			err = rows.Scan(&d.org, &d.startNs)
			return d, err
		}, `SELECT id, until FROM (SELECT id, COALESCE((SELECT MAX(end_ns) FROM invoices i WHERE i.org = orgs.id), created_ns) AS until FROM orgs WHERE id > ?)
			WHERE until < ? ORDER BY id LIMIT ?`, string(after), start.UnixNano(), page(limit))
		for _, row := range rows {
			_, end := billing.MonthBefore(row.startNs + 1)
			due = append(due, DueInvoice{row.org, end})
		}
		return due, err
	})
}

// InvoiceReady refuses with STATE_CONFLICT a month of an organisation whose usage may still come at a time.
func (s *Store) InvoiceReady(ctx context.Context, org tenancy.OrgID, endNs int64, now time.Time) error {
	_, err := read(ctx, s, func(r reader) (bool, error) { return invoiceReady(r, org, endNs, now.UnixNano()) })
	return err
}

// invoiceReady reports whether all sources are complete for a month. It refuses with STATE_CONFLICT a month that is not
// over, and one whose sources are not complete within the grace.
func invoiceReady(q querier, org tenancy.OrgID, endNs, nowNs int64) (complete bool, err error) {
	ends := time.Unix(0, endNs).UTC()
	if nowNs < endNs {
		return false, api.Errorf(api.StateConflict, "the month is not over: invoice it after %s", ends.Format(time.RFC3339))
	}
	namespaces, args, err := usageOf(q, UsageQuery{Org: org})
	if err != nil {
		return false, err
	}
	sources, err := usageSources(q, namespaces, args)
	if err != nil {
		return false, err
	}
	until := completeness(sources, nowNs).UntilNs
	if until < endNs && nowNs < endNs+int64(billing.CloseGrace) {
		return false, api.Errorf(api.StateConflict, "usage of the month may still come, it is complete until %s: invoice it then, or after %s",
			time.Unix(0, until).UTC().Format(time.RFC3339), ends.Add(billing.CloseGrace).Format(time.RFC3339))
	}
	return until >= endNs, nil
}
