package files

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// fold maps a name to the form in which names are compared with the denylist.
// Two names that any common file system treats as one have one form: letter
// case (APFS, NTFS, casefold ext4), composition (HFS+), full width and other
// compatibility forms, code points that HFS+ ignores, trailing dots and spaces
// (Windows). It only ever denies more.
func fold(s string) string {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			return foldUnicode(s)
		}
	}
	return strings.TrimRight(strings.ToLower(s), ". ")
}

func foldUnicode(s string) string {
	s = strings.Map(dropIgnorable, s)
	s = norm.NFKC.String(cases.Fold().String(norm.NFKC.String(s)))
	// Compatibility forms may decompose to something ignorable.
	return strings.TrimRight(strings.Map(dropIgnorable, s), ". ")
}

func dropIgnorable(r rune) rune {
	if r < 0x20 || r == 0x7f || unicode.In(r, unicode.Cf, unicode.Cc,
		unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) {
		return -1
	}
	return r
}

// foldPath folds each component and keeps the slashes.
func foldPath(rel string) string {
	if !strings.Contains(rel, "/") {
		return fold(rel)
	}
	parts := strings.Split(rel, "/")
	for i, p := range parts {
		parts[i] = fold(p)
	}
	return strings.Join(parts, "/")
}
