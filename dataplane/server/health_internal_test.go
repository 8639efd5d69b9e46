package server

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
)

// TestJudge checks each reason alone and all together.
func TestJudge(t *testing.T) {
	t.Parallel()
	good := readiness{led: true, free: 64, least: 64}
	with := func(change func(*readiness)) readiness {
		f := good
		change(&f)
		return f
	}
	for _, test := range []struct {
		name  string
		facts readiness
		code  api.Code
		wrong string
	}{
		{"good, at the bound of the disk", good, "", ""},
		{"draining", with(func(f *readiness) { f.draining = true }), api.Unhealthy, "serving"},
		{"failed", with(func(f *readiness) { f.failed = true }), api.Unhealthy, "store"},
		{"no leader", with(func(f *readiness) { f.led = false }), api.LeaderUnavailable, "leader"},
		{"as far behind its log as it may be", with(func(f *readiness) { f.applyLag = MaxApplyLag }), "", ""},
		{"one entry further", with(func(f *readiness) { f.applyLag = MaxApplyLag + 1 }), api.Unhealthy, "applied"},
		{"view behind", with(func(f *readiness) { f.viewLag, f.viewBehind = 1e6, time.Hour }), "", ""},
		{"view failing", with(func(f *readiness) { f.viewErr = errors.New("secret") }), api.Unhealthy, "view"},
		{"view behind and failing", with(func(f *readiness) { f.viewLag, f.viewErr = 1, errors.New("secret") }), api.Unhealthy, "view"},
		{"one byte too few", with(func(f *readiness) { f.free-- }), api.Unhealthy, "disk"},
		{"disk does not answer", with(func(f *readiness) { f.freeErr = errors.New("secret") }), api.Unhealthy, "disk"},
		{"disk unknown", with(func(f *readiness) { f.free, f.freeErr = 0, fmt.Errorf("free: %w", errors.ErrUnsupported) }), "", ""},
		{"all", readiness{draining: true, failed: true, viewErr: errors.New("secret"), least: 1}, api.Unhealthy, "disk leader serving store view"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			checks, err := test.facts.judge()
			if api.CodeOf(err) != test.code {
				t.Errorf("%v, want %s", err, test.code)
			}
			var wrong []string
			for name, text := range checks {
				if !strings.HasPrefix(text, "ok") {
					wrong = append(wrong, name)
					if !strings.Contains(err.Error(), text) {
						t.Errorf("%v does not say %s", err, text)
					}
				}
				if strings.Contains(text, "secret") {
					t.Errorf("%s tells %s", name, text)
				}
			}
			if slices.Sort(wrong); strings.Join(wrong, " ") != test.wrong || len(checks) != 6 {
				t.Errorf("checks %v, want %q to fail", checks, test.wrong)
			}
		})
	}
}
