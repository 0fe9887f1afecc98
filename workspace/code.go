package workspace

import (
	"fmt"
	"time"
)

// Code says why a call was refused. Codes are stable: they appear in results,
// logs, receipts and the CLI.
type Code string

// The codes in the order in which the gate checks; the first refusal wins.
const (
	Killed            Code = "killed"
	Expired           Code = "expired"
	UnknownTool       Code = "unknown_tool"
	RateLimited       Code = "rate_limited"
	BadArguments      Code = "bad_arguments"
	NoRight           Code = "no_right"
	BadPath           Code = "bad_path"
	OutsideGrant      Code = "outside_grant"
	SecretPath        Code = "secret_path"
	SpecialFile       Code = "special_file"
	CommandNotGranted Code = "command_not_granted"
	TooLarge          Code = "too_large"
	LogUnavailable    Code = "log_unavailable"
)

// codes lists every refusal code in gate order.
var codes = [...]Code{Killed, Expired, UnknownTool, RateLimited, BadArguments, NoRight, BadPath,
	OutsideGrant, SecretPath, SpecialFile, CommandNotGranted, TooLarge, LogUnavailable}

// Codes returns every refusal code in gate order.
func Codes() []Code { return append([]Code{}, codes[:]...) }

// Refusal is the error of a call that policy refused. Its text reaches the
// provider: it never names a host path and never says whether a denied file
// exists.
type Refusal struct {
	Code Code
	// Hint says what would be allowed or how to go on.
	Hint string
	// RetryAfter is set with RateLimited.
	RetryAfter time.Duration
}

// Refuse makes a Refusal with a formatted hint.
func Refuse(code Code, format string, args ...any) *Refusal {
	return &Refusal{Code: code, Hint: fmt.Sprintf(format, args...)}
}

// Error is the stable first line that the provider's agent reads.
func (r *Refusal) Error() string {
	s := "DENIED " + string(r.Code)
	if r.RetryAfter > 0 {
		s += fmt.Sprintf(" retry_after_ms=%d", r.RetryAfter.Milliseconds())
	}
	if r.Hint != "" {
		s += ": " + r.Hint
	}
	return s
}

// Failure is the error of an allowed call that could not be done (no such
// file, text not found, wrong hash). Its text reaches the provider too.
type Failure struct {
	// Reason is one of: not_found, exists, changed, no_match, binary,
	// not_directory, is_directory, no_space, timeout, cancelled, unknown_job,
	// internal, unknown.
	Reason string
	Hint   string
}

// Fail makes a Failure with a formatted hint.
func Fail(reason, format string, args ...any) *Failure {
	return &Failure{Reason: reason, Hint: fmt.Sprintf(format, args...)}
}

func (f *Failure) Error() string { return "FAILED " + f.Reason + ": " + f.Hint }
