package billing

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// The tables of docs/billing.md are those of the shipped plans and of the bill in bills/example.txt.
func TestTheGuideIsTrue(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../docs/billing.md")
	if err != nil {
		t.Fatal(err)
	}
	story, err := os.ReadFile("testdata/bills/example.txt")
	if err != nil {
		t.Fatal(err)
	}
	input, _, _ := strings.Cut(string(story), dashes+"\n")
	r := readStory(t, input)
	b, err := Rate(r)
	if err != nil {
		t.Fatal(err)
	}
	want := planTable(r.Book)
	for _, u := range r.Usage {
		want = append(want, fmt.Sprintf("| %s | %s | `%s` | %s |", time.Unix(0, u.HourNs).UTC().Format("2006-01-02 15:00"), u.Namespace, u.Meter, u.Quantity))
	}
	for _, l := range b.Lines {
		want = append(want, fmt.Sprintf("| `%s` | %s | %d | %s | %s per %d | %s |", l.Item, l.Namespace, l.Tier, l.Quantity, l.UnitPrice, l.Per, l.Amount))
	}
	want = append(want, fmt.Sprintf("| `rounding` | | | | | %s |", b.Rounding), fmt.Sprintf("| total | | | | | %s |", b.Subtotal),
		fmt.Sprintf("The cost of model calls, %s USD, stands beside the lines", b.LLMCost.Total))
	for _, line := range want {
		if !strings.Contains(string(guide), "\n"+line) {
			t.Errorf("the guide lacks the line\n%s", line)
		}
	}
	if rows := strings.Count(string(guide), "\n| `") + strings.Count(string(guide), "\n| 2026-"); rows != len(want)-2 {
		t.Errorf("the guide has %d rows, want %d", rows, len(want)-2)
	}
}

// planTable returns the rows of the guide's table of what each plan charges.
func planTable(book *PlanBook) (rows []string) {
	cell := func(of func(PlanVersion) string) (text string) {
		for _, plan := range Plans {
			versions := book.Versions(plan)
			text += " " + of(versions[len(versions)-1]) + " |"
		}
		return text
	}
	free := book.Versions(Free)
	for _, p := range free[len(free)-1].Prices {
		rows = append(rows, fmt.Sprintf("| `%s`, per %d |", p.Meter, p.Per)+cell(func(v PlanVersion) string {
			for _, own := range v.Prices {
				if own.Meter == p.Meter {
					return tiersText(own)
				}
			}
			return "no price"
		}))
	}
	return append(rows,
		"| `discount`, percent of usage |"+cell(func(v PlanVersion) string { return fmt.Sprint(v.Discount) }),
		"| `minimum`, of usage after the discount |"+cell(func(v PlanVersion) string { return v.Minimum.String() }),
		"| `monthly_fee` |"+cell(func(v PlanVersion) string { return v.Fee.String() }))
}

// tiersText describes the tiers of a price, such as "0 up to 10, 0.02 up to 100, then 0.01".
func tiersText(p PlatformPrice) (text string) {
	if p.Included > 0 {
		text = fmt.Sprintf("0 up to %d, ", p.Included)
	}
	for _, t := range p.Tiers {
		if t.UpTo > 0 {
			text += fmt.Sprintf("%s up to %d, ", t.Price, t.UpTo)
		} else if text != "" {
			text += "then " + t.Price.String()
		} else {
			text = t.Price.String()
		}
	}
	return text
}
