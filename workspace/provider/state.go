package provider

import (
	"errors"
	"fmt"

	"github.com/weftmesh/weft/store"
	"github.com/weftmesh/weft/workspace/gate"
)

// stored is a session as it is kept on the provider's side.
type stored struct {
	Grant []byte `json:"grant"`
	// State is one of gate's states, as far as this side knows.
	State  string `json:"state"`
	Reason string `json:"reason"`
	LogKey string `json:"logKey"`
	// PeerCert certifies the requester's log key.
	PeerCert []byte `json:"peerCert"`
	Tools    string `json:"tools"`
	// NextSeq numbers the next call. It is stored ahead in steps, so that a
	// restart never uses a number twice.
	NextSeq    uint64 `json:"nextSeq"`
	Checkpoint string `json:"checkpoint"`
	Receipt    []byte `json:"receipt"`
	// Forked says that the requester contradicted what it signed before.
	Forked bool `json:"forked"`
	// LetGo says that the requester has no such session any more.
	LetGo    bool  `json:"letGo"`
	Accepted int64 `json:"accepted"`
	Ended    int64 `json:"ended"`
}

func (st stored) settled() bool {
	return gate.State(st.State).Over() && (len(st.Receipt) > 0 || st.Forked)
}

// opening is what this side knows of a record's committed values, so that it
// can prove the record too.
type opening struct {
	Path    string `json:"path"`
	Args    string `json:"args"`
	Request string `json:"request"`
	Result  string `json:"result"`
}

var (
	sessions = store.NewCollection[stored]("provider-sessions")
	openings = store.NewCollection[opening]("provider-openings")
)

// seqStep is how many call numbers are taken from the store at once.
const seqStep = 1024

// Errors that callers tell apart.
var (
	// ErrOver says that the session has ended.
	ErrOver = errors.New("the session is over")
	// ErrDisconnected says that no path to the requester came up in time. The
	// call may have run; the session goes on when the requester is back.
	ErrDisconnected = errors.New("the requester did not answer in time; the call may or may not have run")
	// ErrStore says that this node's copy of the session log can't be written.
	ErrStore = errors.New("this node can't keep its copy of the session log: free space on its disk, then restart weft; a call under way may or may not have run")
	// ErrTaken says that a session is kept here already.
	ErrTaken = errors.New("the session was accepted before")
	// ErrFork says that the requester showed two different logs.
	ErrFork = errors.New("the requester's log contradicts what it signed before")
)

// over is ErrOver with how the session ended.
func over(state gate.State) error { return fmt.Errorf("%w: %s", ErrOver, state) }
