// Package agents starts coding agents on this machine and tells them where a
// session's tools are.
//
// Each known agent takes its MCP servers in its own way: Claude Code and Codex
// by arguments, Gemini CLI and opencode by a settings file or a variable.
// Configure is pure: it returns what to run and what to write, so that a table
// can test it. An agent that isn't known gets the command in
// WEFT_MCP_COMMAND.
package agents
