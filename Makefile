# Eight targets; each prints what it does.
SHELL := /bin/bash
GO    ?= go
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LINT  := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
COMPILE := CGO_ENABLED=0 $(GO) build -trimpath -pgo=cmd/sluice/default.pgo -ldflags "-s -w -X main.version=$(VERSION)"

.PHONY: build v3 test test-all rig demo bench lint

build: ## the switch and the lab, into bin
	@echo "build: bin/sluice, bin/sluice-lab ($(VERSION))"
	@$(COMPILE) -o bin/ ./cmd/sluice ./cmd/sluice-lab

v3: ## the same for level v3 of amd64
	@echo "v3: bin/sluice-v3, bin/sluice-lab-v3"
	@GOARCH=amd64 GOAMD64=v3 $(COMPILE) -o bin/sluice-v3 ./cmd/sluice
	@GOARCH=amd64 GOAMD64=v3 $(COMPILE) -o bin/sluice-lab-v3 ./cmd/sluice-lab

test: ## ten minutes of tests, on real devices, too (root); lists skipped tests at the end
	@echo "test: every package, without the long tests"
	@scripts/test

test-all: build ## every test, forty minutes
	@echo "test-all: the same, the long tests, lossless forwarding with the transmitter, the race detector"
	@scripts/test all

rig: ## the switch with drivers and stacks of virtual machines, fifteen minutes (root; no KVM)
	@echo "rig: virtio_net, igb, vmxnet3 and e1000e in QEMU, Linux peers, RDMA"
	@scripts/rig

demo: ## three hosts, 2:1 into one port: lossless loses nothing
	@echo "build: bin/sluice-lab ($(VERSION))"
	@$(COMPILE) -o bin/ ./cmd/sluice-lab
	@echo "demo: two hosts send at line rate each to a third, in lossless CoS 3 and lossy CoS 0"
	@bin/sluice-lab demo

bench: build v3 ## microbenchmarks of the engines, then the short set of scenarios beside their peers
	@echo "bench: engines, then the short set of scenarios; reports go to bench-results"
	@scripts/bench

lint: ## golangci-lint with staticcheck (.golangci.yml), and the house rules
	@echo "lint: golangci-lint, house rules"
	@$(GO) run $(LINT) run ./...
	@$(GO) test -count=1 .
