// Package clients installs and runs the stock clients of the end-to-end tests:
// the official TypeScript MCP SDK, the MCP Inspector's command line, and
// coding agents. Nothing of it is ours but the few lines that drive the SDK
// (testdata/npm/client.mjs), so what they can do, users' clients can.
//
//	set := clients.Install(t)
//	c := set.SDK(t, w, clients.Server{Argv: alice.Argv("mcp", id), Node: bob})
//	c.Call(t, "read_file", map[string]any{"path": "shop/README.md"})
//
// The packages are pinned by testdata/npm/package-lock.json and installed with
// npm ci into os.UserCacheDir()/weft-e2e/HASH, once for each lock file, and
// kept there. No install script runs, and npm's own cache, logs and home lie in
// the same folder. A missing npm skips the test, in CI it fails it.
//
// Agents run in a home of their own with a configuration that knows one model,
// the scripted one of package model:
//
//	opencode  opencode-linux-x64 1.18.33  MIT
//	codex     @openai/codex 0.171.0       Apache-2.0
//
// Two more are installed (testdata/npm-more) and run only when the variable
// WEFT_E2E_AGENTS names them, as in WEFT_E2E_AGENTS=claude,gemini: Claude Code,
// whose licence is its vendor's own, and Gemini CLI, which is slow.
package clients
