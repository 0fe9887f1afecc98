package requester

import (
	"time"

	"github.com/weftmesh/weft/store"
	"github.com/weftmesh/weft/workspace/command"
	"github.com/weftmesh/weft/workspace/gate"
)

// stored is a session as it is kept: what can't be read back from the log.
type stored struct {
	Grant []byte `json:"grant"`
	// Dirs are the directories behind the roots' names. They never leave.
	Dirs   map[string]string `json:"dirs"`
	State  gate.State        `json:"state"`
	Reason string            `json:"reason"`
	LogKey string            `json:"logKey"`
	Tools  string            `json:"tools"`
	// Pins are the programs of the granted commands as they were when the
	// grant was made; one that changed since is not run.
	Pins []command.Pin `json:"pins"`
	// Acked is the log size of the newest head the provider signed.
	Acked uint64 `json:"acked"`
	// PeerCert certifies the provider's log key, once it joined.
	PeerCert []byte `json:"peerCert"`
	// Checkpoint is the newest checkpoint both signed.
	Checkpoint string `json:"checkpoint"`
	Receipt    []byte `json:"receipt"`
	Settled    bool   `json:"settled"`
	Sandbox    string `json:"sandbox"`
	// Seen is the latest time at which the session was stored.
	Seen   int64 `json:"seen"`
	Opened int64 `json:"opened"`
	Ended  int64 `json:"ended"`
}

// callState is what is kept of one call, so that it runs at most once.
type callState struct {
	Seq uint64 `json:"seq"`
	// Digest is SHA-256 of the signed call; the same id with another digest
	// is refused.
	Digest string `json:"digest"`
	Tool   string `json:"tool"`
	Path   string `json:"path"`
	Args   string `json:"args"`
	// Header and Sig are the call as its provider signed it.
	Header []byte `json:"header"`
	Sig    []byte `json:"sig"`
	// Intent is the seq of the call record, Result of the result record, which
	// a refused call doesn't have. Done says that the answer is stored.
	Intent uint64 `json:"intent"`
	Result uint64 `json:"result"`
	Done   bool   `json:"done"`
}

var (
	sessions = store.NewCollection[stored]("requester-sessions")
	calls    = store.NewCollection[callState]("requester-calls")
	answers  = store.NewCollection[[]byte]("requester-answers")
)

// keptAnswers is how many answers of a session stay for sending again. The
// provider has at most maxRunning calls open, so four times that is enough.
const keptAnswers = 4 * maxRunning

// maxRunning bounds the calls of one session that run at once.
const maxRunning = 16

// pausedPatience is how long a call waits for a paused session to go on
// before it is told to come back: below the 60 s that agents give a call.
const pausedPatience = 25 * time.Second

func callKey(session, call string) string { return session + "/" + call }
