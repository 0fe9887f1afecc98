package store

import (
	"log/slog"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// childEnv makes the test binary act as the process that is killed, or that
// holds a lock; see child_test.go.
const childEnv = "WEFT_STORE_TEST_CHILD"

func TestMain(m *testing.M) {
	if mode := os.Getenv(childEnv); mode != "" {
		os.Exit(child(mode, os.Getenv("WEFT_STORE_TEST_DIR")))
	}
	goleak.VerifyTestMain(m,
		// A Badger that fails to open leaves these behind: its cleanup is
		// skipped where err is shadowed (v4.9.6 db.go, Open).
		goleak.IgnoreAnyFunction("github.com/dgraph-io/badger/v4.(*DB).monitorCache"),
		goleak.IgnoreAnyFunction("github.com/dgraph-io/badger/v4.(*DB).updateSize"),
		goleak.IgnoreAnyFunction("github.com/dgraph-io/ristretto/v2/z.(*AllocatorPool).freeupAllocators"),
		goleak.IgnoreAnyFunction("github.com/dgraph-io/badger/v4/y.(*WaterMark).process"),
		goleak.IgnoreAnyFunction("github.com/dgraph-io/badger/v4.(*DB).flushMemtable"),
	)
}

// open opens a store that the test closes.
func open(t testing.TB, o Options) *DB {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	db, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil && db.broken() == nil {
			t.Errorf("close: %v", err)
		}
	})
	return db
}

// update fails the test if fn can't be made durable.
func update(t testing.TB, db *DB, fn func(*Tx) error) {
	t.Helper()
	if err := db.Update(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
}

// view fails the test if fn does.
func view(t testing.TB, db *DB, fn func(*Tx) error) {
	t.Helper()
	if err := db.View(fn); err != nil {
		t.Fatal(err)
	}
}
