// Package e2e holds the end-to-end tests: real weft processes, a real folder,
// stock MCP clients and real coding agents, with nothing of weft imported but
// the spelling of ids.
//
//	go test ./test/e2e/...                           everything
//	go test ./test/e2e -run TestSpine -v             one of them
//	WEFT_E2E_AGENTS=claude,gemini go test ./test/e2e/... two more agents
//	WEFT_E2E_RACE=1 go test ./test/e2e               weft built with the race detector
//	WEFT_E2E_KEEP=1 go test ./test/e2e -v            keep the homes to look at
//
// The tests need git, node and npm; the relay and full-disk tests need root.
// On a person's machine what is missing skips a test with its reason; with
// CI=true it fails it.
//
// The kit beside the tests: world (processes), fixture (the granted
// repository), clients (what npm has), model (the scripted model server) and
// toy (an MCP server to try the clients on).
package e2e
