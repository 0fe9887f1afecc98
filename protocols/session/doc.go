// Package session is the secure channel of a workspace session and the closed
// set of messages on it.
package session
