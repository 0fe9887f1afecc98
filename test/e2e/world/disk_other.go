//go:build unix && !linux

package world

import "testing"

// Disk is a small file system; it is written for Linux only.
type Disk struct{}

// OnDisk needs Linux.
func (n *Node) OnDisk(t testing.TB, size int64) *Disk {
	t.Helper()
	t.Skip("small disks are written for Linux only")
	return nil
}

// Fill does nothing.
func (d *Disk) Fill(testing.TB) {}

// Free does nothing.
func (d *Disk) Free(testing.TB) {}
