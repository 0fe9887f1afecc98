// Package model is a scripted model server on loopback, for driving a real
// coding agent without a model: the agent sends its prompt and its list of
// tools, the server answers with the next tool call of a script, and at the
// end with a text that quotes something only a tool result could have told.
//
// It speaks enough of four protocols for the agents of the end-to-end tests:
//
//	POST /v1/messages                       Anthropic messages (Claude Code)
//	POST /v1/responses                      OpenAI responses (Codex)
//	POST /v1/chat/completions               OpenAI chat (opencode)
//	POST /v1beta/models/M:generateContent   Gemini (Gemini CLI)
//
// each whole or as server-sent events, as the request asks.
//
// The server keeps no conversation. Every request carries the whole history,
// and the place in the script follows from the tool results in it, so a retry,
// a second agent or a restarted one gets the same answer. A request that lacks
// the script's trigger word, or offers no tool at all (agents ask for titles
// and summaries this way), gets a short idle text. A guard ends a run that
// goes round in circles: a scripted model once made an agent call one tool a
// thousand times in two minutes.
//
// Everything agents sent is kept, so that a test can say what never reached a
// model.
package model
