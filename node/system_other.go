//go:build !linux

package node

import "errors"

// clockSynced is known only on Linux.
func clockSynced() (synced, known bool) { return false, false }

// udpBuffer is looked at only on Linux, where the default limit is too small.
func udpBuffer(int) (int, error) { return 0, errors.ErrUnsupported }
