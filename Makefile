# The targets of a contributor. `make` lists them; CI runs `make test`.

GO        ?= go
TOOL       = $(GO) tool -modfile=tools/go.mod
VERSION   ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS    = -s -w -X main.version=$(VERSION)
DATA      ?= ./cloud-data
NODE_DATA ?= ./node-data
FUZZTIME  ?= 5s
SIM_SEEDS ?= 200
BUDGET_SEEDS ?= 1000
JOBS      ?= 1000000
PACKAGES  ?=
WORDS     ?=
FOR       ?= 2m

# The race detector runs for packages with concurrency. SQLite in pure Go is some thirty
# times slower under it, so the view is tested without it, and the server runs one
# lifecycle with it. Ops apply on one goroutine and are tested without it. With -short,
# property tests draw a fifth of their inputs, because each runs on one goroutine.
RACE_PACKAGES = ./durable/... ./engine/... ./dataplane/state/... ./dataplane/duties/... ./dataplane/sinks/... \
	./dataplane/host/... ./dataplane/agent/... ./dataplane ./dataplane/perf ./api/fleet/... ./tenancy/... ./controlplane/gateway/... \
	./controlplane/plan/... ./controlplane/reconcile/... ./controlplane/server/... ./controlplane ./cmd/internal/allinone

.PHONY: help run run-node cli build release image image-check test check unit race sim sim-long sim-budgets million sustained fuzz chaos bench peers lint words generate schema golden clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

GOBUILD = CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/

# `make run` builds only the binary that it starts, because with empty caches every
# package takes time.
run: ## build and start a whole cloud on 127.0.0.1:8080, ready for curl (data in ./cloud-data)
	$(GOBUILD) ./cmd/corvo-cloud
	./bin/corvo-cloud dev --data-dir $(DATA)

run-node: cli ## build and start one bare node (data in ./node-data)
	./bin/corvo server --data-dir $(NODE_DATA)

cli: ## build only corvo, the command line and the node, into bin/
	$(GOBUILD) ./cmd/corvo

build: ## build the binaries into bin/
	$(GOBUILD) ./cmd/...

# The archives depend on the commit only, not on the machine or the day.
release: ## build archives and checksums of a version in dist/ (VERSION=v1.2.3 PLATFORMS=linux/amd64,...)
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(GO) run ./deploy/release -version '$(VERSION)' -platforms '$(PLATFORMS)'

image: ## build the container image corvo/corvo (needs Docker)
	docker build -f deploy/Dockerfile --build-arg VERSION='$(VERSION)' -t corvo/corvo .

image-check: ## build the image's files and start them without Docker (Linux, as root)
	CORVO_IMAGE=1 $(GO) test ./cmd/corvo/ -run TestTheImage -count=1 -v

# Instrumenting SQLite and the log stores for the fuzzer takes minutes of a cold
# build, so the short form leaves out their packages. Every test run plays their seeds.
test: FUZZ_SKIP = ./controlplane/store ./engine
test: FUZZTIME = 3s
test: lint schema unit race fuzz ## run everything CI runs, in its short form
	@echo "all of make test passed"

unit: ## run all tests without the race detector (kill test and simulation included)
	$(GO) test ./...
	cd tools && $(GO) test ./words

race: ## test the concurrent packages under the race detector (needs a C compiler)
	@if ! command -v $$($(GO) env CC) >/dev/null && [ -z "$$CI" ]; then \
		echo "skipped: the race detector needs a C compiler, and there is none"; \
	else set -ex; \
		CGO_ENABLED=1 $(GO) test -race -short $(RACE_PACKAGES); \
		CGO_ENABLED=1 $(GO) test -race -run 'TestLifecycle' ./dataplane/server/; \
	fi

sim: ## run the simulation: SIM_SEEDS=5000 make sim
	$(GO) test ./dataplane/sim/ -run TestSimulation -v -sim.seeds=$(SIM_SEEDS) -timeout 60m

sim-long: SIM_SEEDS = 20000
sim-long: sim ## run the simulations with tens of thousands of histories
	$(GO) test ./controlplane/reconcile/ -run 'TestFleetSimulation|TestRejoinSimulation' -v -sim.seeds=10000 -timeout 180m

sim-budgets: ## compare a thousand histories of budgets with a model
	$(GO) test ./dataplane/op/ -run TestBudgetSeeds -count=1 -budget.seeds=$(BUDGET_SEEDS) -timeout 60m

million: ## send a million jobs through a node and recount every count
	$(GO) test ./dataplane/perf/ -run TestEveryCountIsARecount -v -count=1 -million.jobs=$(JOBS) -timeout 60m

sustained: ## request every list under maximum load: FOR=2m make sustained
	$(GO) test ./dataplane/perf/ -run TestListsUnderSustainedLoad -v -count=1 -sustained.for=$(FOR) -timeout 30m

# A fuzzer whose time ends in the middle of an input may fail with "context deadline
# exceeded" without a finding, because of a bug in the toolchain. It writes every real
# finding to testdata and reports it.
fuzz: ## run every fuzz target: FUZZTIME=10m make fuzz
	@set -e; for package in $$(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u); do \
		case " $(FUZZ_SKIP) " in *" $$package "*) continue;; esac; \
		for target in $$(grep -rh --include='*_test.go' -o '^func Fuzz[A-Za-z0-9]*' $$package/*_test.go | sed 's/func //'); do \
			echo "$$package $$target"; \
			if out=$$($(GO) test $$package -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -parallel 2 2>&1); then \
				echo "$$out" | tail -n 3; continue; \
			fi; \
			echo "$$out"; \
			case "$$out" in *"Failing input"*) exit 1;; *"context deadline exceeded"*) ;; *) exit 1;; esac; \
		done; \
	done

chaos: ## inject kills, partitions and other faults under load (needs root)
	CORVO_KILLS=30 $(GO) test ./cmd/corvo/ ./cmd/corvo-cloud/ -run TestKill -v -timeout 30m
	CORVO_CHAOS=40 CORVO_FAILOVERS=20 $(GO) test ./cmd/corvo/ ./cmd/corvo-cloud/ -run 'TestChaos|TestFailover' -v -timeout 60m

bench: ## measure the figures of docs/benchmarks.md
	$(GO) test -run '^$$' -bench . -benchmem ./engine/ ./dataplane/op/ ./dataplane/state/ ./dataplane/perf/

peers: build ## compare Corvo with NATS JetStream, Asynq, River and bare raft: PEERS="-rounds 5" make peers
	cd bench && $(GO) run . $(PEERS)

lint: ## run vet and staticcheck
	$(GO) vet ./...
	$(TOOL) staticcheck ./...

words: ## measure the words of comments: PACKAGES="./engine/... ./api" WORDS=-list make words
	@cd tools && $(GO) run ./words -root .. $(WORDS) $(PACKAGES)

generate: ## generate Go from the .proto files
	$(TOOL) buf generate
	$(TOOL) buf generate --template buf.gen.fast.yaml --path dataplane/job --path dataplane/state --path dataplane/op/op.proto
	$(TOOL) buf generate --template buf.gen.wire.yaml --path api/workerpb

schema: ## refuse protobuf changes that make old logs unreadable
	$(TOOL) buf breaking --against tools/schema.binpb

golden: schema ## rewrite the golden files; read the diff before you commit it
	$(TOOL) buf build --exclude-source-info -o tools/schema.binpb
	$(GO) test $$(grep -rl --include='*_test.go' '"rewrite"' . | xargs -n1 dirname | sort -u) -rewrite

clean: ## remove build output
	rm -rf bin dist
