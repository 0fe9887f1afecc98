// Package demo plays one workspace session on this machine, for a person to
// watch: a relay, a requester and a provider as real processes with homes of
// their own, a real MCP client as the agent, a real folder with a failing
// test. Each step prints what was checked; the first that doesn't hold ends
// the demo with an error. Everything runs on loopback and below one temporary
// directory.
package demo
