package billing

import "slices"

// Account is the permanent number of an account of the ledger. Numbers are stored in the journal, so that an account
// keeps its number for ever and the number of a removed account is not given to another one.
type Account uint32

// The accounts. Their definitions are in Accounts.
const (
	Receivable         Account = 1100
	UnbilledUsage      Account = 1200
	StripeClearing     Account = 1300
	CreditsOutstanding Account = 2100
	DeferredCommitment Account = 2200
	TaxPayable         Account = 2300
	RevenueJobs        Account = 4100
	RevenueActiveTime  Account = 4200
	RevenueStorage     Account = 4300
	RevenueEgress      Account = 4400
	RevenueOpenTime    Account = 4500
	RevenueTokens      Account = 4600
	RevenueLLM         Account = 4700
	RevenueFees        Account = 4800
	RevenueDiscounts   Account = 4900
	CreditsGranted     Account = 5100
	RefundsDisputes    Account = 5200
	BadDebt            Account = 5300
	LimitWriteOff      Account = 5400
	RoundingDifference Account = 5500
)

// Side is the side of an account on which its balance normally is.
type Side string

// The sides.
const (
	Debit  Side = "debit"
	Credit Side = "credit"
)

// AccountDefinition describes an account.
type AccountDefinition struct {
	Account
	Name   string // in exports
	Normal Side
	About  string // for people
}

// Accounts has the definition of every account, by rising number.
var Accounts = []AccountDefinition{
	{Receivable, "receivable", Debit, "amounts of final invoices that are not paid"},
	{UnbilledUsage, "unbilled_usage", Debit, "rated usage that is on no final invoice"},
	{StripeClearing, "stripe_clearing", Debit, "payments that Stripe has taken and not paid out"},
	{CreditsOutstanding, "credits_outstanding", Credit, "unused rests of credits"},
	{DeferredCommitment, "deferred_commitment", Credit, "commitments that were invoiced and not used"},
	{TaxPayable, "tax_payable", Credit, "taxes that were invoiced and not paid to the state"},
	{RevenueJobs, "revenue_jobs", Credit, "revenue from jobs"},
	{RevenueActiveTime, "revenue_active_time", Credit, "revenue from active seconds"},
	{RevenueStorage, "revenue_storage", Credit, "revenue from stored bytes"},
	{RevenueEgress, "revenue_egress", Credit, "revenue from response bytes"},
	{RevenueOpenTime, "revenue_open_time", Credit, "revenue from open time"},
	{RevenueTokens, "revenue_tokens", Credit, "revenue from tokens tracked"},
	{RevenueLLM, "revenue_llm", Credit, "revenue from LLM cost that is passed through"},
	{RevenueFees, "revenue_fees", Credit, "revenue from plan fees and unused commitments"},
	{RevenueDiscounts, "revenue_discounts", Debit, "discounts on usage, which reduce revenue"},
	{CreditsGranted, "credits_granted", Debit, "credits given, without the rests that were revoked or have expired"},
	{RefundsDisputes, "refunds_disputes", Debit, "payments given back, and payments lost in disputes"},
	{BadDebt, "bad_debt", Debit, "receivables that were given up"},
	{LimitWriteOff, "limit_write_off", Debit, "usage beyond a spend limit, which is not charged"},
	{RoundingDifference, "rounding", Debit, "differences between lines and invoices of whole cents"},
}

// Definition returns the account's definition; ok is false for an unknown number.
func (a Account) Definition() (d AccountDefinition, ok bool) {
	i, ok := slices.BinarySearchFunc(Accounts, a, func(d AccountDefinition, a Account) int { return int(d.Account) - int(a) })
	if ok {
		d = Accounts[i]
	}
	return d, ok
}

// revenueOf has the account for the revenue from each meter.
var revenueOf = [metersEnd]Account{
	Reports: RevenueTokens, RejectedReports: RevenueTokens, InputTokens: RevenueTokens, OutputTokens: RevenueTokens,
	CacheCreationTokens: RevenueTokens, CacheReadTokens: RevenueTokens, Cost: RevenueLLM,
	Requests: RevenueEgress, RequestBytes: RevenueEgress, ResponseBytes: RevenueEgress,
	JobsEnqueued: RevenueJobs, JobsCompleted: RevenueJobs, ActiveSeconds: RevenueActiveTime,
	StoredByteSeconds: RevenueStorage, OpenSeconds: RevenueOpenTime,
}

// account returns the account of a line's item; ok is false for an unknown item.
func (l Line) account() (a Account, ok bool) {
	switch l.Item {
	case ItemFee, ItemMinimum:
		return RevenueFees, true
	case ItemDiscount:
		return RevenueDiscounts, true
	case ItemBroughtForward:
		return UnbilledUsage, true
	}
	m, ok := MeterNamed(l.Item)
	return revenueOf[m], ok
}
