package store

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

// Errors of Open. Each comes wrapped with what was attempted and what to do.
var (
	// ErrInUse says that a process, perhaps this one, has the store open.
	ErrInUse = errors.New("store is in use")
	// ErrNewerSchema says that a later weft wrote the store.
	ErrNewerSchema = errors.New("store was written by a newer weft")
	// ErrForeign says that the folder holds something that is not a weft store.
	ErrForeign = errors.New("folder is not a weft store")
	// ErrCorrupt says that the files are damaged beyond what a crash can do.
	ErrCorrupt = errors.New("store is damaged")
	// ErrKey says that Options.Key is not the key the store was made with.
	ErrKey = errors.New("store key is wrong")
	// ErrFull says that the disk has no room. From Update it means that
	// nothing was written and that a later try may succeed.
	ErrFull = errors.New("disk is full")
)

// Errors of reads and writes.
var (
	// ErrNotFound says that no value has the key.
	ErrNotFound = errors.New("not found")
	// ErrReplay says that a replay guard has the id already.
	ErrReplay = errors.New("already used")
	// ErrTooLarge says that a key, a value or one update is beyond its limit.
	ErrTooLarge = errors.New("too large to store")
	// ErrReadOnly says that a View tried to write.
	ErrReadOnly = errors.New("write inside a view")
	// ErrTxDone says that a Tx was used after its function returned.
	ErrTxDone = errors.New("transaction is over")
	// ErrClosed says that the store is closed or closing.
	ErrClosed = errors.New("store is closed")
	// ErrBroken says that the disk failed in the middle of a write. Whether
	// that write survives is unknown until the store is opened again; until
	// then everything is refused.
	ErrBroken = errors.New("store failed while writing")
	// ErrDisk says that the disk refused before anything was written.
	ErrDisk = errors.New("disk refused the write")
)

// full wraps the numbers of a full disk with the next step.
func full(dir string, free, need int64) error {
	return fmt.Errorf("%w: %d MiB free where %s is, %d MiB needed. Free some space, then try again", ErrFull, free>>20, dir, need>>20+1)
}

// broken wraps the first failure of a write.
func broken(err error) error {
	return fmt.Errorf("%w: %w. Check the disk, then restart the node", ErrBroken, err)
}

// refused maps an injected or early error of the disk.
func refused(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, ErrFull) {
		return fmt.Errorf("%w: %w. Free some space, then try again", ErrFull, err)
	}
	return fmt.Errorf("%w: %w", ErrDisk, err)
}

// permission says whether an error of the file system is about permission, which
// is neither damage nor a foreign folder.
func permission(err error) bool { return errors.Is(err, fs.ErrPermission) }
