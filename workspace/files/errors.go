package files

import (
	"context"
	"errors"
	"io/fs"
	"syscall"

	"github.com/weftmesh/weft/workspace"
)

// errInternal is for what has no better word. The cause stays here: it could
// name a host path.
func errInternal(what string) error {
	return workspace.Fail("internal", "%s could not be done on the requester's machine; try another path or ask the requester", what)
}

// explain turns an error of the system into one for the provider. path is
// virtual. It keeps errors that are already fit.
func explain(err error, path string) error {
	var refusal *workspace.Refusal
	var failure *workspace.Failure
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refusal):
		return refusal
	case errors.As(err, &failure):
		return failure
	case errors.Is(err, context.DeadlineExceeded):
		return workspace.Fail("timeout", "not finished in time; ask for less")
	case errors.Is(err, context.Canceled):
		return workspace.Fail("cancelled", "the call was cancelled")
	case errors.Is(err, syscall.ELOOP):
		return linkRefusal(path)
	case errors.Is(err, syscall.EXDEV):
		return workspace.Refuse(workspace.OutsideGrant, "%s is not inside the granted folder", path)
	case errors.Is(err, syscall.ENOTDIR):
		return workspace.Fail("not_directory", "a component of %s before the last is a file", path)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, errDeleted):
		return workspace.Fail("not_found", "no such file or directory: %s; list_dir shows what is there", path)
	case errors.Is(err, fs.ErrExist):
		return workspace.Fail("exists", "%s exists", path)
	case errors.Is(err, syscall.ENAMETOOLONG), errors.Is(err, syscall.EILSEQ):
		return workspace.Refuse(workspace.BadPath, "the file system does not take this name: %s", path)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EFBIG):
		return workspace.Fail("no_space", "the requester's disk is full; nothing was written")
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return workspace.Fail("internal", "the file system does not permit this on %s", path)
	}
	return errInternal("work on " + path)
}

func linkRefusal(path string) error {
	return workspace.Refuse(workspace.SpecialFile, "%s is or passes a symbolic link, and links are not followed; stat on the link says where it leads, if that is inside the grant", path)
}

func typeRefusal(path string) error {
	return workspace.Refuse(workspace.SpecialFile, "%s is not a regular file or directory", path)
}

func badArgs(format string, args ...any) error {
	return workspace.Refuse(workspace.BadArguments, format, args...)
}
