package host

import (
	"context"
	"log/slog"
	"sync"

	"github.com/libp2p/go-libp2p/gologshim"
)

// libp2p keeps one log handler a process, taken at its first line. Much of
// what it logs above Debug is caused by remote peers, which must not be able
// to fill a log: all of it becomes Debug.
var libp2pLog sync.Once

func routeLibp2pLog(log *slog.Logger) {
	libp2pLog.Do(func() { gologshim.SetDefaultHandler(demoted{log.Handler()}) })
}

// demoted passes records on at level Debug.
type demoted struct{ slog.Handler }

func (d demoted) Enabled(ctx context.Context, _ slog.Level) bool {
	return d.Handler.Enabled(ctx, slog.LevelDebug)
}

func (d demoted) Handle(ctx context.Context, r slog.Record) error {
	r.Level = slog.LevelDebug
	return d.Handler.Handle(ctx, r)
}

func (d demoted) WithAttrs(as []slog.Attr) slog.Handler { return demoted{d.Handler.WithAttrs(as)} }
func (d demoted) WithGroup(name string) slog.Handler    { return demoted{d.Handler.WithGroup(name)} }
