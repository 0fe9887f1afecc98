// Package weft is the root of the module. It holds no code: the tests beside
// it keep the architecture of design and style (import direction, package
// comments, file sizes, waiting in tests) true.
//
// Start reading at ARCHITECTURE.md, then node/node.go.
package weft
