package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/tenancy/keyring"
)

// reporter returns the reporter of a host over HTTP.
func (f *front) reporter(service string) *wire.Reporter {
	return wire.NewReporter(f.now, func(r wire.Report) (answer wire.ReportAnswer, err error) {
		body, err := json.Marshal(r)
		if err != nil {
			return answer, err
		}
		a := f.send("POST", wire.ReportPath, service, string(body))
		if a.status != http.StatusOK {
			return answer, api.Errorf(a.problem(f.t).Code, "%s", a.body)
		}
		return answer, json.Unmarshal(a.body, &answer)
	})
}

// openCells returns cells of namespaces that are open.
func openCells(number int) []wire.CellReport {
	all := make([]wire.CellReport, number)
	for i := range all {
		all[i] = wire.CellReport{Namespace: fmt.Sprintf("ns_%026d", i), Generation: 1, State: wire.Opened}
	}
	return all
}

// A delta on a report that the control plane has taken changes its cells only. Another delta is answered with a request
// for a full report and changes nothing.
func TestDeltas(t *testing.T) {
	t.Parallel()
	f, _ := start(t)
	host, credential := f.host("one", keyring.Host)
	service := f.join(credential, "http://one.test")
	cell := func(ns, state string) string {
		return `{"namespace":"` + ns + `","generation":1,"state":"` + state + `"}`
	}
	for _, c := range []struct{ body, answer, a, b, c string }{
		{`{"sequence":5,"base":4,"cells":[` + cell("a", wire.Failed) + `]}`, `{"full":true}`, "", "", ""},
		{`{"sequence":6,"cells":[` + cell("a", wire.Opening) + `,` + cell("b", wire.Opening) + `]}`, `{}`, wire.Opening, wire.Opening, ""},
		{`{"sequence":7,"base":6,"cells":[` + cell("a", wire.Opened) + `,` + cell("c", wire.Opening) + `],"ended":["b"]}`, `{}`, wire.Opened, "", wire.Opening},
		{`{"sequence":9,"base":8,"cells":[` + cell("c", wire.Opened) + `]}`, `{"full":true}`, wire.Opened, "", wire.Opening},
		{`{"sequence":10,"more":true,"cells":[` + cell("b", wire.Opened) + `]}`, `{}`, wire.Opened, "", wire.Opening},
		{`{"sequence":11,"base":10,"cells":[` + cell("c", wire.Opened) + `]}`, `{}`, "", wire.Opened, wire.Opened},
		{`{"sequence":10,"cells":[]}`, `{"full":true}`, "", wire.Opened, wire.Opened},
	} {
		a := f.send("POST", wire.ReportPath, service, c.body)
		if a.status != http.StatusOK || strings.TrimSpace(string(a.body)) != c.answer {
			t.Errorf("%s is answered %d %s, want %s", c.body, a.status, a.body, c.answer)
		}
		for ns, want := range map[string]string{"a": c.a, "b": c.b, "c": c.c} {
			if got := f.server.cfg.Observations.Cell(host, ns).State; got != want {
				t.Errorf("after %s namespace %s is %q, want %q", c.body, ns, got, want)
			}
		}
	}
}

// A claim needs a time. A gateway's is in its report, and a host's is in the group of a shard.
func TestClaimsInReports(t *testing.T) {
	t.Parallel()
	f, _ := start(t)
	_, credential := f.host("one", keyring.Host)
	_, gatewayCredential := f.host("g", keyring.Gateway)
	host, gateway := f.join(credential, "http://one.test"), f.join(gatewayCredential, "")
	group := func(claim string) string {
		return `{"sequence":1,"cells":[{"namespace":"a","generation":1,"state":"open","groups":[{"role":"leading","usage":` + claim + `}]}]}`
	}
	for _, c := range []struct {
		key, body string
		status    int
	}{
		{host, group(`{"until_ns":1,"last":9223372036854775807}`), http.StatusOK},
		{host, group(`{"until_ns":0}`), http.StatusBadRequest},
		{host, group(`{"until_ns":1,"last":9223372036854775808}`), http.StatusBadRequest},
		{host, `{"sequence":2,"usage":{"until_ns":1}}`, http.StatusBadRequest},
		{gateway, `{"usage":{"until_ns":-1}}`, http.StatusBadRequest},
		{gateway, `{"usage":{"until_ns":1}}`, http.StatusOK},
	} {
		if a := f.send("POST", wire.ReportPath, c.key, c.body); a.status != c.status {
			t.Errorf("%s: %d %s", c.body, a.status, a.body)
		}
	}
}

// A host that leads the groups of 10,000 namespaces with three replicas reports them in parts.
func TestALargeHostReports(t *testing.T) {
	t.Parallel()
	f, _ := start(t)
	host, credential := f.host("one", keyring.Host)
	cells := openCells(10_000)
	var voters []string
	for n := range 3 {
		voters = append(voters, fmt.Sprintf("%s%026d", wire.StorePrefix, n))
	}
	for i := range cells {
		cells[i].Incarnations = []entry.Incarnation{{byte(i)}}
		cells[i].Groups = []wire.GroupReport{{Role: wire.Leading, Epoch: 1, Generation: 1, Configuration: 1 << 30, Voters: voters}}
	}
	if err := f.reporter(f.join(credential, "http://one.test")).Report(wire.Report{Cells: cells}); err != nil {
		t.Fatal(err)
	}
	for _, c := range cells {
		if got := f.server.cfg.Observations.Cell(host, c.Namespace); len(got.Groups) != 1 || len(got.Groups[0].Voters) != 3 {
			t.Fatalf("namespace %s is %+v", c.Namespace, got)
		}
	}
}

// A host may have MaxReportCells cells. With one more its reports are refused: a delta with that cell, and a full one.
func TestTheMostCells(t *testing.T) {
	if testing.Short() {
		t.Skip("reports of 100,000 cells take a minute under the race detector")
	}
	t.Parallel()
	f, _ := start(t)
	host, credential := f.host("one", keyring.Host)
	reporter, cells := f.reporter(f.join(credential, "http://one.test")), openCells(wire.MaxReportCells+1)
	if err := reporter.Report(wire.Report{Cells: cells[1:]}); err != nil {
		t.Fatal(err)
	}
	if f.server.cfg.Observations.Cell(host, cells[wire.MaxReportCells].Namespace).State != wire.Opened {
		t.Error("the last cell is not known")
	}
	for _, report := range []string{"a delta", "a full report"} {
		if err := reporter.Report(wire.Report{Cells: cells}); api.CodeOf(err) != api.ValidationError {
			t.Errorf("%s of too many cells: %v", report, err)
		}
	}
	if f.server.cfg.Observations.Cell(host, cells[0].Namespace).State != "" {
		t.Error("the cell of a refused report is known")
	}
}

// A report may have MaxReportBody bytes.
func TestTheLargestReport(t *testing.T) {
	t.Parallel()
	f, _ := start(t)
	_, credential := f.host("one", keyring.Host)
	service := f.join(credential, "http://one.test")
	body := `{"sequence":1}`
	body += strings.Repeat(" ", wire.MaxReportBody-len(body))
	if a := f.send("POST", wire.ReportPath, service, body); a.status != http.StatusOK {
		t.Errorf("at the bound: %d %s", a.status, a.body)
	}
	if a := f.send("POST", wire.ReportPath, service, body+" "); a.status != http.StatusRequestEntityTooLarge {
		t.Errorf("beyond the bound: %d %s", a.status, a.body)
	}
}
