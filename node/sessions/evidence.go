package sessions

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/weftmesh/weft/node/api"
	"github.com/weftmesh/weft/workspace/receipt"
	"github.com/weftmesh/weft/workspace/sessionlog"
)

// logBatch is how many records are read at once.
const logBatch = 256

func (s side) log() *sessionlog.Log {
	if s.mine != nil {
		return s.mine.Log()
	}
	return s.theirs.Log()
}

// getLog streams the records as the owner of this side sees them. With
// ?follow=1 it goes on until the session has ended.
func (d *Desk) getLog(w http.ResponseWriter, r *http.Request) error {
	s, err := d.find(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	defer s.free()
	follow := r.URL.Query().Get("follow") == "1"
	return api.Stream(w, r, func(ctx context.Context, send func(any) error) error {
		from := uint64(0)
		for {
			lines, err := s.lines(from)
			if err != nil {
				return err
			}
			for _, l := range lines {
				if err := send(l); err != nil {
					return err
				}
			}
			from += uint64(len(lines))
			switch {
			case len(lines) == logBatch:
				continue
			case !follow || s.log().Totals().End != "" && from == s.log().Head().Size:
				return nil
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(200 * time.Millisecond):
			}
		}
	})
}

// lines reads a batch of records and what this side knows behind them.
func (s side) lines(from uint64) ([]LogLine, error) {
	leaves, err := s.log().Leaves(from, logBatch)
	if err != nil {
		return nil, err
	}
	out := make([]LogLine, 0, len(leaves))
	for _, leaf := range leaves {
		rec, err := sessionlog.Decode(leaf)
		if err != nil {
			return nil, err
		}
		l := LogLine{Seq: rec.Seq, Time: time.UnixMilli(rec.Time).UTC().Format(time.RFC3339Nano), Type: string(rec.Type), Tool: rec.Tool,
			Verdict: string(rec.Verdict), Code: rec.Code, Bytes: rec.Bytes, Written: rec.Written, Redacted: rec.Redacted, Note: rec.Note, Call: rec.Call}
		if rec.Call != "" {
			if s.mine != nil {
				l.Path, err = s.mine.PathOf(rec.Call)
			} else {
				l.Path, err = s.theirs.PathOf(rec.Call)
			}
			if err != nil {
				return nil, err
			}
		}
		out = append(out, l)
	}
	return out, nil
}

// getExport writes the log as a file that receipt verify can check.
func (d *Desk) getExport(w http.ResponseWriter, r *http.Request) error {
	s, err := d.find(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	defer s.free()
	w.Header().Set("Content-Type", "application/x-ndjson")
	return receipt.Export(w, s.log())
}

// getReceipt writes the receipt's document, byte for byte.
func (d *Desk) getReceipt(w http.ResponseWriter, r *http.Request) error {
	s, err := d.find(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	defer s.free()
	raw, settled := []byte(nil), false
	if s.mine != nil {
		raw, settled = s.mine.Receipt(), s.mine.Settled()
	} else {
		raw, settled = s.theirs.Receipt(), true
	}
	if raw == nil {
		return api.Errorf(api.Conflict, "session %s has no receipt yet: it has not ended, or the other side's copy is still on its way", short(r.PathValue("id"))).
			WithCode("no_receipt").Try("weft stop %s ends it", r.PathValue("id"))
	}
	if wait := r.URL.Query().Get("wait"); wait == "1" && !settled {
		raw = s.settledReceipt(r.Context())
	}
	w.Header().Set("Content-Type", "application/json")
	if _, err := w.Write(raw); err != nil {
		return fmt.Errorf("write receipt: %w", err)
	}
	return nil
}

// settlePatience is how long getting a receipt waits for the other signature
// while the provider is connected.
const settlePatience = 3 * time.Second

func (s side) settledReceipt(ctx context.Context) []byte {
	ctx, cancel := context.WithTimeout(ctx, settlePatience)
	defer cancel()
	for ctx.Err() == nil {
		changed := s.mine.Changed()
		if s.mine.Settled() || !s.mine.Channel().State().Attached {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return s.mine.Receipt()
}

// getProof writes the proof of one record.
func (d *Desk) getProof(w http.ResponseWriter, r *http.Request) error {
	seq, err := parseSeq(r.PathValue("seq"))
	if err != nil {
		return err
	}
	s, err := d.find(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	defer s.free()
	var raw []byte
	if s.mine != nil {
		raw, err = s.mine.Prove(r.Context(), seq)
	} else {
		raw, err = s.theirs.Prove(seq)
	}
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	if _, err := w.Write(raw); err != nil {
		return fmt.Errorf("write proof: %w", err)
	}
	return nil
}
