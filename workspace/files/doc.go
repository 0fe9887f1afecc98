// Package files gives a session its granted folders, by directory handle only.
//
// A Tree holds one open handle for each granted root. Every operation goes the
// same way, and stops at the first no:
//
//	name    the virtual path is compared with the denylist, the root's include
//	        and exclude globs and the rights, before the disk is touched: a
//	        denied name gets one answer, whether or not it exists
//	root    the root's host path must still lead to the directory that was
//	        granted; a moved or replaced root stops every operation on it
//	pin     the object is opened O_PATH below the root's handle, with no
//	        symbolic link, no magic link and no mount crossing on the way
//	        (openat2); a FIFO, socket or device is refused here, never opened
//	real    the kernel's own name of the pinned object is checked like the
//	        requested name
//	inode   the object must not be one that a denied name had when the tree was
//	        last scanned: hard links and renames of denied files stay denied
//	read    content is read through the pinned object, so nothing can be
//	        swapped in between; it passes the Redactor before it leaves
//
// Writes never open an existing file for writing. They make a temporary file
// beside it (O_EXCL), and put it in place by one rename that either refuses to
// replace (create) or exchanges and then checks that what it took out is what
// the caller's hash described (overwrite). So hard links are severed, a symbolic
// link can't be written through, and a file that the user saved meanwhile is
// put back. Mode bits and owner are kept; setuid, setgid, ACLs and extended
// attributes are not.
//
// # Text
//
// A result is a header line and a body. Text bodies are UTF-8: a file that
// isn't is refused with reason "binary" and can be had losslessly with
// encoding base64, so U+FFFD never appears. NUL in the first 8 KiB means
// binary. Budgets: 32 KiB of text unless asked for more, 96 KiB at most, 256
// KiB for a byte range, 2 MiB for an image. A cut says how to continue.
//
// The header's sha256 is that of the whole file's bytes on disk. It is given
// for files of at most 8 MiB and cached by (device, inode, size, mtime,
// ctime); a bigger file has sha256=-, since hashing it for each read would make
// every read as slow as the file is long. The number of lines is known up to 64
// MiB. A file that changed in the last 50 ms is not cached: its timestamps
// could be the same for two contents.
//
// # Redaction
//
// Ranges are cut from redacted text, never redacted after the cut: a read takes
// the enclosing line and 4 KiB on both sides before it looks for secrets, so two
// adjacent ranges show no more than one. Grep and the matching of edits depend
// on redacted text only, so neither confirms a guess. The sha256 and the size
// are of the real file: they allow a guess of the whole file to be checked.
//
// # Platforms
//
// Linux is complete. Other Unixes use os.Root with the checks around it: links
// are refused by lstat of each component and os.Root contains the races; there
// is no kernel name of an open file, no check for mounts, and overwrite can't
// exchange. Elsewhere OpenTree fails.
package files
