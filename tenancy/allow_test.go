package tenancy

import (
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
)

func TestAllow(t *testing.T) {
	t.Parallel()
	here := Where{Namespace: Default}
	queue := func(name string) Where { return Where{Namespace: Default, Queue: name} }
	worker := Principal{Namespace: Default, KeyID: "k1", Name: "ci", Roles: []Role{Worker}}
	scoped := worker
	scoped.QueueScope = []Glob{"mail.*", "sms"}
	for _, c := range []struct {
		name    string
		who     Principal
		what    Permission
		where   Where
		refusal string // part of the message; "" = allowed
	}{
		{"a role that grants it", worker, JobWork, here, ""},
		{"any queue without a scope", worker, JobWork, queue("anything"), ""},
		{"any of several roles", Principal{Namespace: Default, Roles: []Role{ReadOnly, Worker}}, JobWork, here, ""},
		{"a queue in scope", scoped, JobWork, queue("mail.out"), ""},
		{"a queue in scope, literally", scoped, JobWork, queue("sms"), ""},
		{"a scoped key at the route", scoped, JobWork, here, ""},
		{"an open node", Principal{Namespace: Default, Open: true}, NodeAdmin, queue("q"), ""},

		{"a role without it", worker, KeyManage, here, "key k1 (ci) lacks the right key.manage: its roles are [worker]"},
		{"no role", Principal{Namespace: Default}, JobRead, here, "lacks the right job.read"},
		{"an unknown role", Principal{Namespace: Default, Roles: []Role{"root", ""}}, JobRead, here, "lacks the right job.read"},
		{"a role's name in other case", Principal{Namespace: Default, Roles: []Role{"Admin"}}, JobRead, here, "lacks the right"},
		{"an unknown permission", Principal{Namespace: Default, Roles: []Role{Admin}}, "job.fly", here, `"job.fly" is not a permission`},
		{"no permission", Principal{Namespace: Default, Roles: []Role{Admin}}, "", here, "is not a permission"},
		{"an unknown permission on an open node", Principal{Namespace: Default, Open: true}, "job.fly", here, "is not a permission"},
		{"a queue out of scope", scoped, JobWork, queue("mail"), `may not job.work in queue "mail": its queue scope is [mail.* sms]`},
		{"a queue that only begins like one in scope", scoped, JobWork, queue("sms2"), "queue scope"},
		{"another namespace", worker, JobWork, Where{Namespace: "other"}, "no permissions in this namespace"},
		{"no namespace", worker, JobWork, Where{}, "no permissions in this namespace"},
		{"nobody, nowhere", Principal{}, JobRead, Where{}, "no permissions in this namespace"},
		{"nobody", Principal{}, JobRead, here, "no permissions in this namespace"},
		{"an open node in another namespace", Principal{Namespace: Default, Open: true}, JobRead, Where{Namespace: "other"}, "no permissions in this namespace"},
		{"a principal of no namespace", Principal{Roles: []Role{Admin}, Open: true}, JobRead, Where{}, "no permissions in this namespace"},
	} {
		err := Allow(c.who, c.what, c.where)
		switch {
		case c.refusal == "" && err != nil:
			t.Errorf("%s: refused: %v", c.name, err)
		case c.refusal != "" && (api.CodeOf(err) != api.Forbidden || !strings.Contains(err.Error(), c.refusal)):
			t.Errorf("%s: %v, want FORBIDDEN with %q", c.name, err, c.refusal)
		}
	}
}

// TestAllowAgreesWithTheMatrix checks every pair of role and permission.
func TestAllowAgreesWithTheMatrix(t *testing.T) {
	t.Parallel()
	for _, r := range Roles() {
		for _, p := range Permissions() {
			who := Principal{Namespace: Default, Roles: []Role{r}}
			if err := Allow(who, p, Where{Namespace: Default}); (err == nil) != r.Grants(p) {
				t.Errorf("%s %s: Grants says %v, Allow %v", r, p, r.Grants(p), err)
			}
		}
	}
}

// TestListsAreCopies checks that a caller cannot change the matrix through the lists.
func TestListsAreCopies(t *testing.T) {
	t.Parallel()
	Permissions()[0] = "x"
	Roles()[0] = "x"
	if Permissions()[0] != JobEnqueue || Roles()[0] != Admin {
		t.Error("a caller can change the matrix")
	}
}

func TestAllowDoesNotAllocate(t *testing.T) {
	who := Principal{Namespace: Default, Roles: []Role{Worker}, QueueScope: []Glob{"a.*", "mail.*"}}
	if got := testing.AllocsPerRun(100, func() {
		if Allow(who, JobEnqueue, Where{Namespace: Default, Queue: "mail.out"}) != nil {
			t.Fatal("refused")
		}
	}); got != 0 {
		t.Errorf("Allow allocates %v times, want 0, because it runs for every request", got)
	}
}

// TestMayGrant checks that no principal can grant, change or revoke more than its own permissions.
func TestMayGrant(t *testing.T) {
	t.Parallel()
	here, org := Where{Namespace: Default}, Where{Org: "acme"}
	admin := Principal{Namespace: Default, KeyID: "k", Roles: []Role{Admin}}
	operator := Principal{Namespace: Default, KeyID: "k", Roles: []Role{Operator}}
	scoped := Principal{Namespace: Default, KeyID: "k", Roles: []Role{Admin}, QueueScope: []Glob{"mail.*", "sms"}}
	for _, c := range []struct {
		name    string
		who     Principal
		where   Where
		roles   []Role
		scope   []Glob
		refusal string // part of the message; "" = allowed
	}{
		{"an admin anything", admin, here, []Role{Admin, Worker}, nil, ""},
		{"one's own role", operator, here, []Role{Operator}, nil, ""},
		{"a lesser role", operator, here, []Role{ReadOnly, Worker}, []Glob{"mail.*"}, ""},
		{"within the scope", scoped, here, []Role{Worker}, []Glob{"mail.*", "mail.out.*", "sms"}, ""},
		{"an organisation's admin", Principal{Org: "acme", Roles: []Role{Admin}}, org, []Role{Admin}, nil, ""},
		{"an organisation's operator lesser keys", Principal{Org: "acme", Roles: []Role{Operator}}, org, []Role{ReadOnly, Worker}, nil, ""},
		{"an organisation's operator an admin", Principal{Org: "acme", Roles: []Role{Operator}}, org, []Role{ReadOnly, Admin}, nil, "has not"},
		{"who runs the cloud", Principal{Org: EveryOrg, Roles: []Role{CloudOperator}}, org, []Role{Admin}, nil, ""},

		{"a greater role", operator, here, []Role{Admin}, nil, "the role admin has the right key.manage, which key k has not"},
		{"a role of the cloud", admin, here, []Role{CloudOperator}, nil, "fleet.operate"},
		{"every queue, from some", scoped, here, []Role{Worker}, nil, "covers every queue"},
		{"a wider scope", scoped, here, []Role{Worker}, []Glob{"mail.*", "*"}, `queue_scope "*" goes beyond`},
		{"stars within stars", Principal{Namespace: Default, Roles: []Role{Worker}, QueueScope: []Glob{"a.*", "b*c"}}, here, []Role{Worker}, []Glob{"a.*.b", "bc", "b*xc"}, ""},
		{"one scope of two too wide", scoped, here, []Role{Worker}, []Glob{"mail.x", "c"}, `queue_scope "c" goes beyond`},
		{"half a pattern", Principal{Namespace: Default, Roles: []Role{Worker}, QueueScope: []Glob{"b*c"}}, here, []Role{Worker}, []Glob{"b*"}, "goes beyond"},
		{"a scope that only begins alike", scoped, here, []Role{Worker}, []Glob{"sms*"}, `queue_scope "sms*" goes beyond`},
		{"in another namespace", admin, Where{Namespace: "other"}, []Role{Worker}, nil, "has not"},
		{"in another organisation", Principal{Org: "acme", Roles: []Role{Admin}}, Where{Org: "other"}, []Role{Worker}, nil, "has not"},
		{"nobody", Principal{}, here, []Role{ReadOnly}, nil, "has not"},
	} {
		err := MayGrant(c.who, c.where, c.roles, c.scope)
		switch {
		case c.refusal == "" && err != nil:
			t.Errorf("%s: refused: %v", c.name, err)
		case c.refusal != "" && (api.CodeOf(err) != api.Forbidden || !strings.Contains(err.Error(), c.refusal)):
			t.Errorf("%s: %v, want FORBIDDEN with %q", c.name, err, c.refusal)
		}
	}
}

// TestMayGive checks that only an operator of the cloud can give permissions that it does not have.
func TestMayGive(t *testing.T) {
	t.Parallel()
	org := Where{Org: "o"}
	for what, c := range map[string]struct {
		who Principal
		ok  bool
	}{
		"an admin":           {Principal{Org: "o", Roles: []Role{Admin}}, true},
		"a worker":           {Principal{Org: "o", Roles: []Role{Worker}}, false},
		"an admin elsewhere": {Principal{Org: "p", Roles: []Role{Admin}}, false},
		"who runs the cloud": {Principal{Org: EveryOrg, Roles: []Role{CloudOperator}}, true},
	} {
		if err := MayGive(c.who, org, []Permission{JobRead, NodeAdmin}); (err == nil) != c.ok {
			t.Errorf("%s: %v", what, err)
		}
	}
}
