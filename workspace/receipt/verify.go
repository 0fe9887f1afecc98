package receipt

import (
	"encoding/hex"
	"time"

	"github.com/weftmesh/weft/protocols/identity"
	"github.com/weftmesh/weft/workspace/sessionlog"
)

// Verdict is what a verified receipt says. `weft receipt verify --json` prints
// it.
type Verdict struct {
	// Valid is always true: an invalid receipt has no verdict but an error.
	Valid     bool               `json:"valid"`
	Session   string             `json:"session"`
	Requester identity.PublicKey `json:"requester"`
	Provider  identity.PublicKey `json:"provider"`
	State     sessionlog.Type    `json:"state"`
	Grant     string             `json:"grant"`
	Records   uint64             `json:"records"`
	Root      string             `json:"root"`
	Calls     uint64             `json:"calls"`
	Counts    sessionlog.Counts  `json:"counts"`
	Unknown   uint64             `json:"unknown"`
	Unacked   uint64             `json:"unacked"`
	// Cosigned says that the provider signed this receipt and cosigned the
	// log's last checkpoint. If false, the receipt is the requester's word.
	Cosigned bool `json:"cosigned"`
	// ProviderSigned and LogCosigned are the two parts of Cosigned.
	ProviderSigned bool `json:"providerSigned"`
	LogCosigned    bool `json:"logCosigned"`
	// CosignedAt is when the provider cosigned the log, by its own clock.
	CosignedAt time.Time `json:"cosignedAt,omitzero"`
	// Digest names the receipt: hex SHA-256 of what was signed.
	Digest string `json:"digest"`
	// LogVerified says that the log was there and every number was counted
	// again (VerifyExport, VerifyLog).
	LogVerified bool `json:"logVerified"`
}

// Verify checks a receipt offline, with nothing but its bytes. It says that
// the receipt is intact and consistent and whose it is; whether those are the
// parties one knows is for the caller to compare.
func Verify(raw []byte) (Verdict, error) {
	_, v, err := verify(raw)
	return v, err
}

func verify(raw []byte) (Receipt, Verdict, error) {
	r, c, doc, err := open(raw)
	if err != nil {
		return Receipt{}, Verdict{}, err
	}
	digest := doc.Digest()
	v := Verdict{
		Valid: true, Session: r.Session, Requester: r.Requester, Provider: r.Provider,
		State: r.State, Grant: r.Grant, Records: r.Records, Root: r.Root,
		Calls: r.Calls, Counts: r.Counts, Unknown: r.Unknown, Unacked: r.Unacked,
		ProviderSigned: doc.SignedBy(r.Provider), LogCosigned: c.Cosigned, CosignedAt: c.At,
		Digest: hex.EncodeToString(digest[:]),
	}
	v.Cosigned = v.ProviderSigned && v.LogCosigned
	return r, v, nil
}
