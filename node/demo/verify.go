package demo

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/weftmesh/weft/workspace/receipt"
)

// verify takes both sides' receipts and the log as files, and checks them with
// nothing else; then it changes a byte and expects to be told.
func (p *play) verify(ctx context.Context) error {
	raws := map[string][]byte{}
	for name, d := range map[string]*daemon{"requester": p.req, "provider": p.prov} {
		err := eventually(ctx, "both have signed the receipt", patience, func() (bool, error) {
			var raw []byte
			if err := d.client.Get(ctx, "/v1/sessions/"+p.id+"/receipt", &raw); err != nil {
				return false, nil // not there yet
			}
			v, err := receipt.Verify(raw)
			raws[name] = raw
			return v.Cosigned, err
		})
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(p.dir, name+"-receipt.json"), raws[name], 0o600); err != nil {
			return fmt.Errorf("keep a receipt: %w", err)
		}
	}
	if !bytes.Equal(raws["requester"], raws["provider"]) {
		return fmt.Errorf("the two sides hold different receipts")
	}
	var log bytes.Buffer
	if err := p.prov.client.Copy(ctx, "/v1/sessions/"+p.id+"/export", &log); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(p.dir, "session.log"), log.Bytes(), 0o600); err != nil {
		return fmt.Errorf("keep the log: %w", err)
	}
	v, err := receipt.VerifyExport(bytes.NewReader(log.Bytes()), raws["requester"])
	if err != nil {
		return fmt.Errorf("the log does not match the receipt: %w", err)
	}
	p.say("step", "The receipt is checked offline, from the file alone")
	p.say("fact", "valid: %d records, root %s...", v.Records, v.Root[:16])
	p.say("fact", "signed by requester %s and provider %s", v.Requester, v.Provider)
	denied := uint64(0)
	for _, byVerdict := range v.Counts {
		denied += byVerdict["denied"]
	}
	p.say("fact", "%d calls, %d of them refused; the provider's copy of the log gives the same numbers", v.Calls, denied)
	forged := bytes.Replace(raws["requester"], []byte(`"payload":"`), []byte(`"payload":"A`), 1)
	if _, err := receipt.Verify(forged); err == nil {
		return fmt.Errorf("a changed receipt was taken for valid")
	}
	p.say("fact", "with one byte changed it is refused")
	return nil
}
