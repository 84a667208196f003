# The benchmarks, included by the Makefile. bench/ is a module of its own.

.PHONY: bench-retry
bench-retry: ## next delay, decision and retry.Do beside their peers; records docs/benchmarks.md
	cd bench && go run ./retrybench -record ../docs/benchmarks.md
