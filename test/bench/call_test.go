//go:build linux

package bench

import (
	"context"
	"fmt"
	"testing"
)

// BenchmarkCall reads files of three sizes and plays an agent's trace, each on
// every way there is. Filter with -bench 'Call/read=4KiB' and so on; the whole
// stage is up for each.
func BenchmarkCall(b *testing.B) {
	s := newStage(b)
	for _, size := range []int{small, middle, large} {
		b.Run(fmt.Sprintf("read=%dKiB", size>>10), func(b *testing.B) {
			r := race{title: fmt.Sprintf("read_file, %d KiB", size>>10), against: []string{"raw quic", "mcp http", "sftp"}, block: 40}
			if size == large {
				r.title += " (four ranges at once)"
				r.block = 8
			}
			r.run(b, s.contenders(func(c caller) func(context.Context) error { return reads(c, size) },
				func(st *stream) func(context.Context) error { return st.reads(size) },
				func(r *remote) func(context.Context) error { return r.reads(size) }))
		})
	}
	b.Run("trace", func(b *testing.B) {
		sizes := s.measure(b)
		r := race{title: fmt.Sprintf("agent trace, %d calls", traceCalls), against: []string{"raw quic", "mcp http", "sftp"}, block: 2}
		r.run(b, s.contenders(traces,
			func(st *stream) func(context.Context) error { return st.traces(sizes) },
			func(r *remote) func(context.Context) error { return traces(r) }))
	})
}

// contenders lists everybody with the operation that its kind does.
func (s *stage) contenders(tools func(caller) func(context.Context) error, raw func(*stream) func(context.Context) error, sftp func(*remote) func(context.Context) error) []contender {
	var all []contender
	add := func(name string, op func(context.Context) error) {
		all = append(all, contender{name: name, op: op, serve: s.serve[name]})
	}
	for _, t := range []string{"quic", "tcp", "relay"} {
		add("raw "+t, raw(s.raws[t]))
	}
	for _, name := range s.paths {
		add(name, tools(s.wefts[name]))
	}
	add("weft mcp stdio", tools(s.stdio))
	add("weft mcp http", tools(s.http))
	add("mcp unix", tools(s.unix))
	add("mcp http", tools(s.plain))
	if s.noSFTP != "" {
		return append(all, contender{name: "sftp", skip: s.noSFTP})
	}
	add("sftp", sftp(s.sftp))
	return all
}

// measure plays two traces, so that the folder is as it was, and says how many
// bytes a call and its answer have.
func (s *stage) measure(b *testing.B) []size {
	b.Helper()
	m := &meter{caller: s.wefts["weft quic"]}
	op := traces(m)
	for range 2 {
		m.sizes = nil
		ctx, cancel := context.WithTimeout(context.Background(), opTime)
		err := op(ctx)
		cancel()
		if err != nil {
			b.Fatal(err)
		}
	}
	return m.sizes
}

// meter notes the sizes of calls that pass.
type meter struct {
	caller
	sizes []size
}

func (m *meter) call(ctx context.Context, tool string, args []byte) (answer, error) {
	a, err := m.caller.call(ctx, tool, args)
	m.sizes = append(m.sizes, size{len(args) + 400, len(a.head) + 1 + len(a.body)})
	return a, err
}
