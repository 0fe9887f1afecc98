package receipt

import (
	"bytes"
	"testing"
)

// BenchmarkVerify is a receipt that both signed.
func BenchmarkVerify(b *testing.B) {
	w := play(b, testSession, 1, 2, true, nil)
	for b.Loop() {
		if _, err := Verify(w.raw); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkVerifyExport is a receipt and its log of nine records.
func BenchmarkVerifyExport(b *testing.B) {
	w := play(b, testSession, 1, 2, true, nil)
	export := w.export(b)
	for b.Loop() {
		if _, err := VerifyExport(bytes.NewReader(export), w.raw); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCheck is a proof with two disclosed values.
func BenchmarkCheck(b *testing.B) {
	w := play(b, testSession, 1, 2, true, nil)
	raw := w.prove(b, 1, disclosed)
	for b.Loop() {
		if _, err := Check(raw, nil); err != nil {
			b.Fatal(err)
		}
	}
}
