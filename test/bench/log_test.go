//go:build linux

package bench

import (
	"bytes"
	"context"
	"testing"

	"github.com/weftmesh/weft/test/e2e/world"
	"github.com/weftmesh/weft/workspace/receipt"
	"github.com/weftmesh/weft/workspace/sessionlog"
)

// checkLog ends a session and says whether its log holds exactly the calls
// that were made, each with one intent and one result, and whether the receipt
// says the same.
func checkLog(tb testing.TB, req *world.Node, id string, made uint64) {
	tb.Helper()
	c := daemon(tb, req)
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), world.Patience)
	defer cancel()
	if err := c.Post(ctx, "/v1/sessions/"+id+"/stop", nil, nil); err != nil {
		tb.Errorf("stop session %s: %v", id, err)
		return
	}
	var doc []byte
	var log bytes.Buffer
	if err := c.Get(ctx, "/v1/sessions/"+id+"/receipt?wait=1", &doc); err != nil {
		tb.Errorf("receipt of session %s: %v", id, err)
		return
	}
	if err := c.Copy(ctx, "/v1/sessions/"+id+"/export", &log); err != nil {
		tb.Errorf("log of session %s: %v", id, err)
		return
	}
	v, err := receipt.VerifyExport(bytes.NewReader(log.Bytes()), doc)
	if err != nil {
		tb.Errorf("session %s: %v", id, err)
		return
	}
	begun, ended := map[string]int{}, map[string]int{}
	_, records, _ := bytes.Cut(log.Bytes(), []byte("\n"))
	for line := range bytes.Lines(records) {
		rec, err := sessionlog.Decode(bytes.TrimSuffix(line, []byte("\n")))
		if err != nil {
			tb.Fatalf("session %s: %v", id, err)
		}
		switch rec.Type {
		case sessionlog.Call:
			begun[rec.Call]++
			if rec.Verdict != sessionlog.Allowed {
				tb.Errorf("session %s: a call was refused: %s", id, rec.Code)
			}
		case sessionlog.Result:
			ended[rec.Call]++
			if rec.Verdict != sessionlog.OK {
				tb.Errorf("session %s: a call ended %s %s", id, rec.Verdict, rec.Code)
			}
		}
	}
	for call, n := range begun {
		if n != 1 || ended[call] != 1 {
			tb.Errorf("session %s: call %s has %d intents and %d results", id, call, n, ended[call])
		}
	}
	if uint64(len(begun)) != made || uint64(len(ended)) != made || v.Calls != made || v.Unknown != 0 {
		tb.Errorf("session %s: %d calls were made; the log has %d and %d results, the receipt %d and %d unknown", id, made, len(begun), len(ended), v.Calls, v.Unknown)
	}
}
