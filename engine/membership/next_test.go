package membership

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// scene is a group in a scenario, as its leader sees it.
type scene struct {
	Situation
	t   *testing.T
	out strings.Builder
}

// TestScenarios plays the files of testdata. A command is a line, and the golden output follows it, indented:
//
//	group a b c      the voters; the first leads, and all are up to date
//	list a b c       the list of members
//	dead c           c does not answer
//	behind c         c answers; its log has not caught up
//	log c            c answers; its log has caught up and its view has not
//	ready c          c answers and has caught up
//	lead b           b leads
//	run              make changes until there is none; a transfer makes its target the leader
func TestScenarios(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d scenarios, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s := &scene{t: t}
			for line := range strings.Lines(string(want)) {
				if strings.HasPrefix(line, "  ") {
					continue // the output, which is printed anew
				}
				s.out.WriteString(line)
				if words := strings.Fields(line); len(words) > 0 && words[0] != "#" {
					s.do(words[0], words[1:])
				}
			}
			if *rewrite {
				if err := os.WriteFile(file, []byte(s.out.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if s.out.String() != string(want) {
				t.Errorf("the scenario is now\n%s", s.out.String())
			}
		})
	}
}

func (s *scene) do(command string, words []string) {
	switch command {
	case "group":
		s.Situation = Situation{Leader: words[0], Index: 1}
		for _, id := range words {
			s.Peers = append(s.Peers, Peer{ID: id, Voter: true, Alive: true, Log: true, View: true})
		}
	case "list":
		s.Listed = nil
		for _, id := range words {
			s.Listed = append(s.Listed, Listed{id, id + ":1"})
		}
	case "dead", "behind", "log", "ready":
		for _, id := range words {
			p := s.peer(id)
			p.Alive, p.Log, p.View = command != "dead", command == "log" || command == "ready", command == "ready"
		}
	case "lead":
		s.Leader = words[0]
	case "run":
		s.run()
	default:
		s.t.Fatalf("%q is no command", command)
	}
}

func (s *scene) peer(id string) *Peer {
	at := slices.IndexFunc(s.Peers, func(p Peer) bool { return p.ID == id })
	if at < 0 {
		s.t.Fatalf("%s is no member", id)
	}
	return &s.Peers[at]
}

func (s *scene) run() {
	for range 50 {
		c := Next(s.Situation)
		if c.Kind == None {
			fmt.Fprintf(&s.out, "  none%s\n", s.print())
			return
		}
		if c.Index != s.Index {
			s.t.Fatalf("the change %+v is not fenced by index %d", c, s.Index)
		}
		s.make(c)
		fmt.Fprintf(&s.out, "  %s %s%s\n", c.Kind, c.ID, s.print())
	}
	s.t.Fatalf("the changes find no end:\n%s", s.out.String())
}

// make makes a change at once.
func (s *scene) make(c Change) {
	switch c.Kind {
	case Add:
		s.Peers = append(s.Peers, Peer{ID: c.ID, Alive: true})
	case Promote:
		s.peer(c.ID).Voter = true
	case Remove:
		s.peer(c.ID)
		s.Peers = slices.DeleteFunc(slices.Clone(s.Peers), func(p Peer) bool { return p.ID == c.ID })
	case Transfer:
		s.Leader = c.ID
		return
	}
	s.Index++
}

// print prints the configuration: the leader in brackets, learners with a plus, dead members with an exclamation
// mark.
func (s *scene) print() string {
	var b strings.Builder
	b.WriteString(" ->")
	for _, p := range s.Peers {
		id := p.ID
		if p.ID == s.Leader {
			id = "[" + id + "]"
		}
		if !p.Voter {
			id = "+" + id
		}
		if !p.Alive {
			id = "!" + id
		}
		b.WriteString(" " + id)
	}
	return b.String()
}

func TestNoListNoChange(t *testing.T) {
	t.Parallel()
	if c := Next(Situation{Leader: "a", Peers: []Peer{{ID: "a", Voter: true}, {ID: "b"}}}); c != (Change{}) {
		t.Errorf("without a list the next change is %+v", c)
	}
}
