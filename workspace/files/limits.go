package files

import "time"

// The limits of reference/workspace.md section 2.
const (
	defaultBudget = 32 << 10 // text of one result
	maxBudget     = 96 << 10 // about 25k tokens, where clients refuse
	minBudget     = 1 << 10
	maxRange      = 256 << 10 // bytes of one range read
	maxImage      = 2 << 20

	defaultLines = 2000
	maxLineChars = 2000
	// maxLook bounds the file bytes that one line read passes over.
	maxLook = 1 << 20

	maxHashed  = 8 << 20  // above, no sha256
	maxIndexed = 64 << 20 // above, no line count
	sniffLen   = 8 << 10  // NUL in here means binary

	// redactMargin is read on both sides of a range before redaction, and then
	// on to the ends of the lines, as far as lineMargin.
	redactMargin = 4 << 10
	lineMargin   = 64 << 10

	maxPattern = 1 << 10

	listDepth    = 5
	listDefault  = 500
	listMax      = 1000
	listTime     = 2 * time.Second
	globDefault  = 200
	globMax      = 1000
	globTime     = 5 * time.Second
	walkEntries  = 200_000
	grepDefault  = 200
	grepMax      = 1000
	grepTime     = 10 * time.Second
	grepFileSize = 10 << 20
	grepContext  = 10

	maxWrite = 1 << 20
	maxEdit  = 4 << 20
	maxEdits = 100

	// A scan for denied names that can't finish leaves hard links unknown, so
	// these end it with an error: fail closed.
	scanEntries = 2_000_000
	scanDenied  = 500_000
	scanDepth   = 200
	scanTime    = 30 * time.Second
)
