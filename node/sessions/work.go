package sessions

import (
	"bytes"
	"errors"
	"net/http"

	"github.com/weftmesh/weft/node/api"
	"github.com/weftmesh/weft/workspace/gate"
	"github.com/weftmesh/weft/workspace/provider"
)

// call makes one call, for scripts.
func (d *Desk) call(w http.ResponseWriter, r *http.Request) error {
	in, err := api.Decode[CallRequest](r)
	if err != nil {
		return err
	}
	s, err := d.findTheirs(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	defer s.free()
	res, err := s.theirs.CallJSON(r.Context(), in.Tool, in.Args)
	switch {
	case errors.Is(err, provider.ErrOver):
		state := s.theirs.State()
		code := "killed"
		if state == gate.Lapsed {
			code = "expired"
		}
		return api.Errorf(api.Denied, "session %s is over: %s", short(s.theirs.ID()), state).WithCode(code).Try("ask the requester for a new one; weft receipt get %s has what was done", s.theirs.ID())
	case errors.Is(err, provider.ErrDisconnected):
		return api.Errorf(api.Unreachable, "%v", err).Try("weft session show %s says how the requester is connected", s.theirs.ID())
	case err != nil:
		return err
	}
	header, content, _ := bytes.Cut(res.Body, []byte("\n"))
	out := CallResult{CallID: res.CallID, Verdict: res.Verdict, Code: res.Code, Kind: res.Kind, MIME: res.MIME, Text: string(res.Body)}
	if res.Kind != "text" {
		out.Text, out.Data = string(header), content
	}
	return api.Reply(w, out)
}
