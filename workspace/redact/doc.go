// Package redact takes known secrets out of everything a session sends to a
// provider: results of reads and greps, and the output of commands.
//
// A Set is built from values (the contents of denied files, keys of the
// daemon). It finds each value in the forms in which tools print it: as it
// is, base64 in its three alignments with either alphabet, hex in both cases,
// URL, JSON, HTML escaped, and reversed. What was found is replaced by
// Placeholder.
//
// Matching runs on a view of the text from which white space, control bytes
// and (in a second stage) terminal escape sequences are taken out, so a value
// that is coloured, wrapped, redrawn, NUL separated or printed one character a
// line is found too; the whole stretch of text is then replaced.
//
// A Stream does the same over chunks: it keeps back the shortest tail that
// could still become a match, so how a program splits its writes changes
// nothing. The tail it keeps is bounded by maxHeld.
//
// # What is not promised
//
// Compressed, encrypted or otherwise transformed values (rot13, double base64,
// one character a file) pass. Values shorter than MinLength, of too few
// different characters, or that are everyday words ("development") are not
// looked for, since masking them would destroy every result; Set.Ignored
// counts them. Fragments of a long value shorter than two pieces (47
// characters) may pass. Base64 of a value inside other data leaves at most one
// character at each edge that is shared with its neighbour. A program that
// pads the characters of a secret with more than maxHeld bytes of white space
// gets through; such a program could encode the value as well.
package redact
