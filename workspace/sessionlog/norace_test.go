//go:build !race

package sessionlog

// flipBits is how many bits of each byte are flipped: all.
const flipBits = 8
