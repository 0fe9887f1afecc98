//go:build race

package sessionlog

// flipBits is 1 under the race detector, which makes signatures 10 times
// slower: every byte still changes, in one bit.
const flipBits = 1
