package api

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/weftmesh/weft/protocols/identity"
	"github.com/weftmesh/weft/protocols/signed"
	"github.com/weftmesh/weft/protocols/strict"
	"github.com/weftmesh/weft/workspace"
)

// The exit codes are a contract with scripts (docs: the command contract).
func TestExitCodesAreTheContract(t *testing.T) {
	t.Parallel()
	want := map[Kind]int{Internal: 1, Usage: 2, NotRunning: 3, Unreachable: 3, Unauthorized: 4, Denied: 4,
		Limited: 4, NotFound: 5, Conflict: 6, Busy: 6, Skew: 6, Invalid: 7, Timeout: 8}
	if len(want) != len(kinds) {
		t.Fatalf("%d kinds in the table, %d in the contract", len(kinds), len(want))
	}
	for k, exit := range want {
		if k.ExitCode() != exit {
			t.Errorf("%v exits with %d, want %d", k, k.ExitCode(), exit)
		}
	}
}

// A client reads the kind back from the status, so a status stands once.
func TestStatusNamesOneKind(t *testing.T) {
	t.Parallel()
	codes := map[string]Kind{}
	for i := range kinds {
		k := Kind(i)
		if back := kindOf(k.Status()); back != k {
			t.Errorf("status %d of %v reads back as %v", k.Status(), k, back)
		}
		if other, taken := codes[k.String()]; taken {
			t.Errorf("%v and %v share the code %q", k, other, k)
		}
		codes[k.String()] = k
	}
	if kindOf(418) != Internal {
		t.Error("an unknown status is not Internal")
	}
}

func TestFrom(t *testing.T) {
	t.Parallel()
	denied := Errorf(Denied, "no").WithCode("secret_path").Try("ask")
	tests := []struct {
		name string
		err  error
		want Error
	}{
		{"own", denied, *denied},
		{"own wrapped keeps kind, code and hint", fmt.Errorf("read: %w", denied),
			Error{Kind: Denied, Code: "secret_path", Message: "read: no", Hint: "ask"}},
		{"deadline", fmt.Errorf("dial: %w", context.DeadlineExceeded),
			Error{Kind: Timeout, Message: "dial: context deadline exceeded", Hint: "try again, or allow more time with --timeout"}},
		{"signature", fmt.Errorf("open: %w", signed.ErrSignature),
			Error{Kind: Invalid, Message: "open: bad signature", Hint: "the document was changed or signed by someone else; ask for it again"}},
		{"key", identity.ErrKey, Error{Kind: Invalid, Message: "bad key", Hint: "give a peer id (12D3Koo...), an agent id or a did:key"}},
		{"input", strict.ErrInput, Error{Kind: Invalid, Message: "bad input"}},
		{"missing file", fs.ErrNotExist, Error{Kind: NotFound, Message: "file does not exist"}},
		{"refusal", workspace.Refuse(workspace.SecretPath, "denied"),
			Error{Kind: Denied, Code: "secret_path", Message: "DENIED secret_path: denied"}},
		{"rate", &workspace.Refusal{Code: workspace.RateLimited},
			Error{Kind: Limited, Code: "rate_limited", Message: "DENIED rate_limited"}},
		{"failure", workspace.Fail("not_found", "no such file"),
			Error{Kind: NotFound, Code: "not_found", Message: "FAILED not_found: no such file"}},
		{"unknown", errors.New("boom"), Error{Kind: Internal, Message: "boom"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := From(tt.err); *got != tt.want {
				t.Errorf("From = %+v, want %+v", *got, tt.want)
			}
		})
	}
	if From(nil) != nil {
		t.Error("From(nil) is an error")
	}
}

func TestErrorDocument(t *testing.T) {
	t.Parallel()
	e := Errorf(NotFound, "no peer called %q", "bob\xff").Try("weft peer list")
	want := `{"error":{"code":"not_found","message":"no peer called \"bob\\xff\"","hint":"weft peer list"}}`
	if got := string(e.JSON()); got != want {
		t.Errorf("document %s, want %s", got, want)
	}
	if got := string((&Error{Message: "\xff"}).JSON()); got != `{"error":{"code":"internal","message":"`+"\uFFFD"+`","hint":""}}` {
		t.Errorf("bad UTF-8 gives %s", got)
	}
	if back := parseError(404, e.JSON()); *back != *e.WithCode("not_found") {
		t.Errorf("read back %+v", *back)
	}
	if e := parseError(502, []byte("<html>")); e.Kind != Unreachable || e.Message == "" {
		t.Errorf("a foreign body gives %+v", *e)
	}
}
