# weft. `make help` lists the targets; .ci/run runs what CI runs.
GO ?= go
RACE := $(shell cat .ci/race-packages | grep -v '^\#')
FUZZTIME ?= 10s
ROUNDS ?= 100x
STATICCHECK := $(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2

.PHONY: help build test test/race lint bench bench/call bench/idle bench/packages e2e fuzz

help: ## list the targets
	@grep -E '^[a-z/0-9]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

build: ## build bin/weft
	$(GO) build -o bin/weft ./cmd/weft

test: ## run every test once
	$(GO) test ./...

test/race: ## run the packages with goroutines under the race detector
	$(GO) test -race $(RACE)

lint: ## gofmt, vet (also for macOS and Windows), staticcheck
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); echo "run gofmt -w on these"; exit 1; }
	$(GO) vet ./...
	GOOS=darwin $(GO) vet ./...
	GOOS=windows $(GO) build ./...
	$(STATICCHECK) ./...

bench: bench/call bench/idle bench/packages ## run every benchmark, the numbers of docs/performance.md

bench/call: ## a call beside raw libp2p, plain MCP and sftp; ablations; what a call is made of
	$(GO) test -run '^$$' -bench 'Call|Inside|Reference|Redaction|Sandbox' -benchtime $(ROUNDS) -timeout 30m ./test/bench

bench/idle: ## start and watch an idle node
	$(GO) test -run '^$$' -bench Idle -benchtime 10x -timeout 10m ./test/bench

bench/packages: ## each package's own benchmarks
	$(GO) test -run '^$$' -bench . -benchmem $$($(GO) list ./... | grep -v '/test/')

e2e: ## run the end-to-end tests: real binary, real processes, stock clients
	$(GO) test -count=1 -timeout 30m ./test/e2e/...

fuzz: ## fuzz each decoder for FUZZTIME (10s)
	@for pkg in $$($(GO) list ./...); do \
		for f in $$($(GO) test -list '^Fuzz' $$pkg 2>/dev/null | grep '^Fuzz'); do \
			echo "== $$pkg $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) $$pkg || exit 1; \
		done; done
