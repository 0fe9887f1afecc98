//go:build !unix

package files

import (
	"errors"
	"io/fs"
	"os"
)

// There is no implementation here yet: openBase always fails, so no pin or file
// is ever made.

type (
	base struct {
		real string
		id   ident
	}
	pin struct {
		base *base
		info
	}
	file struct{ *os.File }
)

var (
	errDeleted     = errors.New("deleted meanwhile")
	errUnsupported = errors.New("granting folders is not supported on this system yet; use Linux or macOS")
)

func openBase(string) (*base, error)                         { return nil, errUnsupported }
func (b *base) close()                                       {}
func (b *base) moved() bool                                  { return true }
func (b *base) pin(string) (*pin, error)                     { return nil, errUnsupported }
func (p *pin) child(string) (*pin, error)                    { return nil, errUnsupported }
func (p *pin) close()                                        {}
func (p *pin) stat() error                                   { return errUnsupported }
func (p *pin) statChild(string) (info, error)                { return info{}, errUnsupported }
func (p *pin) realRel() (string, error)                      { return "", errUnsupported }
func (p *pin) target() (string, error)                       { return "", errUnsupported }
func (p *pin) open() (*file, error)                          { return nil, errUnsupported }
func (p *pin) writable() bool                                { return false }
func (f *file) close()                                       { f.Close() }
func (p *pin) entries(func(entry) bool) error                { return errUnsupported }
func (p *pin) createTemp(string, fs.FileMode) (*file, error) { return nil, errUnsupported }
func (f *file) write(b []byte) error                         { _, err := f.Write(b); return err }
func (f *file) own(uid, gid uint32)                          {}
func (f *file) chmod(mode fs.FileMode) error                 { return f.Chmod(mode.Perm()) }
func (f *file) sync() error                                  { return f.Sync() }
func (p *pin) mkdir(string) error                            { return errUnsupported }
func (p *pin) unlink(string) error                           { return errUnsupported }
func (p *pin) place(string, string) error                    { return errUnsupported }
func (p *pin) exchange(string, string) (bool, error)         { return false, errUnsupported }
func (p *pin) rename(string, string) error                   { return errUnsupported }
func (p *pin) syncDir() error                                { return errUnsupported }
