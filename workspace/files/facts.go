package files

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"time"
)

// facts is what only a pass over a whole file tells.
type facts struct {
	sha256   string // "" above maxHashed
	newlines int
	crlf     int
	lines    int
	// marks holds the offset after every markEvery-th newline.
	marks []int64
}

const (
	markEvery = 4096
	maxFacts  = 4096 // cached files; at most 16 KiB each
	// racy is how long a change may hide behind an equal timestamp: kernels
	// stamp files by a clock that ticks every 1 to 10 ms.
	racy = 50 * time.Millisecond
)

func (f *facts) eol() string {
	switch {
	case f.newlines == 0:
		return "none"
	case f.crlf == 0:
		return "lf"
	case f.crlf == f.newlines:
		return "crlf"
	}
	return "mixed"
}

// factKey identifies the bytes of a file.
type factKey struct {
	id                 ident
	size, mtime, ctime int64
}

func keyOf(i *info) factKey { return factKey{i.id, i.size, i.mtime, i.ctime} }

// factCache holds the facts of files that haven't changed since.
type factCache struct {
	mu sync.Mutex // guards m
	m  map[factKey]*facts
}

func (c *factCache) get(k factKey) *facts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.m[k]
}

func (c *factCache) put(k factKey, f *facts) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil {
		c.m = map[factKey]*facts{}
	}
	for old := range c.m {
		if len(c.m) < maxFacts {
			break
		}
		delete(c.m, old) // any: the order of a map is as good as none
	}
	c.m[k] = f
}

// survey returns the facts of a pinned and opened file, nil above maxIndexed.
func (t *Tree) survey(ctx context.Context, p *pin, f *file) (*facts, error) {
	if p.size > maxIndexed {
		return nil, nil
	}
	key := keyOf(&p.info)
	if got := t.facts.get(key); got != nil {
		return got, nil
	}
	got, err := t.pass(ctx, f, p.size)
	if err != nil {
		return nil, err
	}
	settled := time.Unix(0, max(p.mtime, p.ctime)).Add(racy).Before(time.Now())
	after := *p
	if settled && after.stat() == nil && keyOf(&after.info) == key {
		t.facts.put(key, got)
	}
	return got, nil
}

// pass reads a file from start to end, as it is now.
func (t *Tree) pass(ctx context.Context, f *file, size int64) (*facts, error) {
	var got facts
	sum := sha256.New()
	buf := make([]byte, min(size+1, 256<<10))
	last := byte('\n')
	var off int64
	for {
		if err := t.alive(ctx); err != nil {
			return nil, err
		}
		n, err := f.ReadAt(buf, off)
		b := buf[:n]
		if size <= maxHashed {
			sum.Write(b)
		}
		got.count(b, off, last)
		if n > 0 {
			last = b[n-1]
		}
		if off += int64(n); err != nil {
			break
		}
		if off > maxIndexed {
			return nil, context.DeadlineExceeded // it grows while we read
		}
	}
	got.lines = got.newlines
	if off > 0 && last != '\n' {
		got.lines++
	}
	if size <= maxHashed {
		got.sha256 = hex.EncodeToString(sum.Sum(nil))
	}
	return &got, nil
}

// count adds a chunk at off; last is the byte before it.
func (f *facts) count(b []byte, off int64, last byte) {
	n := bytes.Count(b, []byte{'\n'})
	if bytes.IndexByte(b, '\r') >= 0 {
		f.crlf += bytes.Count(b, []byte("\r\n"))
	}
	if last == '\r' && len(b) > 0 && b[0] == '\n' {
		f.crlf++
	}
	if (f.newlines+n)/markEvery == f.newlines/markEvery {
		f.newlines += n
		return
	}
	for i := 0; ; {
		j := bytes.IndexByte(b[i:], '\n')
		if j < 0 {
			return
		}
		i += j + 1
		if f.newlines++; f.newlines%markEvery == 0 {
			f.marks = append(f.marks, off+int64(i))
		}
	}
}

// near is a place at or before the start of a line (from 1): the offset, and
// the line that starts there.
func (f *facts) near(line int) (off int64, at int) {
	if f == nil {
		return 0, 1
	}
	i := min((line-1)/markEvery, len(f.marks))
	if i == 0 {
		return 0, 1
	}
	return f.marks[i-1], i*markEvery + 1
}
