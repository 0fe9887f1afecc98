package requester

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/weftmesh/weft/protocols/strict"
	"github.com/weftmesh/weft/store"
)

// answer is a result as it is kept for sending again.
type answer struct {
	Verdict string `json:"verdict"`
	Code    string `json:"code"`
	Kind    string `json:"kind"`
	MIME    string `json:"mime"`
	Body    []byte `json:"-"`

	sum [sha256.Size]byte // of Body, if it was computed
}

// maxAnswerHeader bounds the JSON before a kept body.
const maxAnswerHeader = 4 << 10

// encode writes the header's length, the header as JSON, and the body as it is.
func (a answer) encode() ([]byte, error) {
	header, err := strict.Marshal(a)
	if err != nil {
		return nil, err
	}
	raw := binary.AppendUvarint(make([]byte, 0, binary.MaxVarintLen32+len(header)+len(a.Body)), uint64(len(header)))
	return append(append(raw, header...), a.Body...), nil
}

func decodeAnswer(raw []byte) (a answer, err error) {
	n, used := binary.Uvarint(raw)
	if used <= 0 || n > maxAnswerHeader || uint64(len(raw)-used) < n {
		return a, errors.New("a kept answer is damaged")
	}
	if err := strict.Unmarshal(raw[used:used+int(n)], maxAnswerHeader, &a); err != nil {
		return a, err
	}
	a.Body = raw[used+int(n):]
	return a, nil
}

// keepAnswer stores an answer, under the call's intent, for sending again.
func (s *Session) keepAnswer(tx *store.Tx, intent uint64, j *job) error {
	if old, ok := s.oldestAnswer(intent); ok {
		if err := answers.Delete(tx, answerKey(s.id, old)); err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
	raw, err := j.answer.encode()
	if err != nil {
		return err
	}
	return answers.Put(tx, answerKey(s.id, intent), raw)
}

// oldestAnswer counts an answer in and names the one to let go, if any.
func (s *Session) oldestAnswer(intent uint64) (old uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(s.kept, intent) { // the store runs the function again
		return 0, false
	}
	s.kept = append(s.kept, intent)
	if len(s.kept) <= keptAnswers {
		return 0, false
	}
	old = s.kept[0]
	s.kept = slices.Delete(s.kept, 0, 1)
	return old, true
}

func answerKey(session string, intent uint64) string {
	return fmt.Sprintf("%s/%016x", session, intent)
}

// maxKeptRead is the largest answer of a reading call that is stored for
// sending again after a restart. Up to here it costs nothing: beyond 1 KiB the
// store writes a value to a second file, and syncs two.
const maxKeptRead = 768

// memory keeps the newest large answers of calls that changed nothing, within
// maxMemory bytes.
type memory struct {
	mu    sync.Mutex
	by    map[string]answer
	order []string
	bytes int
}

// maxMemory bounds what one session's answers take.
const maxMemory = 4 << 20

func (m *memory) put(call string, a answer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.by == nil {
		m.by = map[string]answer{}
	}
	m.by[call] = a
	m.order = append(m.order, call)
	m.bytes += len(a.Body)
	for len(m.order) > keptAnswers || m.bytes > maxMemory {
		m.bytes -= len(m.by[m.order[0]].Body)
		delete(m.by, m.order[0])
		m.order = slices.Delete(m.order, 0, 1)
	}
}

func (m *memory) get(call string) (answer, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a, ok := m.by[call]
	return a, ok
}
