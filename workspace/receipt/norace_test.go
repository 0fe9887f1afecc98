//go:build !race

package receipt

// flipBits is how many bits of each byte are flipped: all.
const flipBits = 8
