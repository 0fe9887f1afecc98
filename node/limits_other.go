//go:build !(linux || darwin || freebsd)

package node

import "errors"

func freeSpace(string) (int64, error) { return 0, errors.ErrUnsupported }

func descriptorLimit() (uint64, error) { return 0, errors.ErrUnsupported }
