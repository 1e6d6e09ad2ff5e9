package text

import (
	"cmp"
	"slices"
	"strings"
	"unicode"

	"callbook/store/search"
)

// reservedWords could be mistaken for the service, its operator or everybody. None may be a whole part of a
// handle or a whole word of a name, also with the word team before or after it. They are sorted.
var reservedWords = []string{
	"abuse", "admin", "anonymous", "api", "ard", "callbook", "dev", "everyone", "help", "mcp", "moderator", "null",
	"official", "operator", "owner", "postmaster", "root", "security", "staff", "support", "system", "undefined", "webmaster",
}

// reservedHandles are further words that no whole handle may be. They are sorted.
var reservedHandles = []string{
	"about", "administrator", "agents", "billing", "calls", "hostmaster", "info", "login", "mail", "mailerdaemon", "new",
	"nobody", "noreply", "openapi", "skill", "status", "sysadmin", "verify", "www",
}

// digitFold replaces digits by the letters that they resemble.
var digitFold = strings.NewReplacer("0", "o", "1", "l", "3", "e", "5", "s")

// latinTwins replaces the small Cyrillic letters that, small or capital, look like Latin ones. A name of one
// script could otherwise be taken for a word of another.
var latinTwins = strings.NewReplacer(
	"а", "a", "в", "b", "ь", "b", "с", "c", "ԁ", "d", "е", "e", "һ", "h", "н", "h", "і", "i", "ј", "j", "к", "k",
	"ӏ", "l", "м", "m", "о", "o", "р", "p", "ѕ", "s", "т", "t", "у", "y", "х", "x", "ѵ", "v",
)

// ReservedHandle reports whether a handle is reserved for the service. Of the whole handle hyphens do not
// count, so that "admin-" and "call-book" are reserved as well.
func ReservedHandle(s string) bool {
	_, found := slices.BinarySearch(reservedHandles, strings.ReplaceAll(s, "-", ""))
	return found || holdsReserved(strings.Split(s, "-"))
}

// holdsReserved reports whether one of some words, or all of them together, is reserved.
func holdsReserved(words []string) bool {
	return slices.ContainsFunc(append(words, strings.Join(words, "")), func(word string) bool {
		folded := strings.TrimSuffix(strings.TrimPrefix(digitFold.Replace(word), "team"), "team")
		_, found := slices.BinarySearch(reservedWords, folded)
		return found || strings.Contains(word, "1") && slices.ContainsFunc(reservedWords, func(reserved string) bool {
			return strings.ReplaceAll(reserved, "i", "l") == strings.ReplaceAll(folded, "i", "l") // which 1 resembles, too
		})
	})
}

// NameFault is the reason why a text cannot be the name of an agent, as the topic of a validation error.
type NameFault string

// The reasons.
const (
	NameBlank    NameFault = "blank"    // no letter or digit
	NameMixed    NameFault = "scripts"  // it mixes scripts
	NameReserved NameFault = "reserved" // a reserved word stands in it
)

// CheckName returns why a line cannot be the name of an agent, or an empty fault: it has a letter or digit,
// mixes scripts no more than the level "highly restrictive" of UTS 39 allows, and no whole word of it looks
// like a reserved one.
func CheckName(s string) NameFault {
	words := strings.FieldsFunc(latinTwins.Replace(withoutMarks(search.Fold(s))), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
	switch {
	case len(words) == 0:
		return NameBlank
	case mixesScripts(s):
		return NameMixed
	case holdsReserved(words):
		return NameReserved
	}
	return ""
}

func withoutMarks(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.M, r) {
			return -1
		}
		return r
	}, s)
}

// scriptSets are the scripts that may stand together (UTS 39, section 5.2): Latin with those of Japanese, of
// Chinese, and of Korean.
var scriptSets = [...][]*unicode.RangeTable{
	{unicode.Latin, unicode.Han, unicode.Hiragana, unicode.Katakana},
	{unicode.Latin, unicode.Han, unicode.Bopomofo},
	{unicode.Latin, unicode.Han, unicode.Hangul},
}

// mixesScripts reports whether a text has characters of scripts that may not stand together. Those that
// scripts share, such as digits and accents, count for none.
func mixesScripts(s string) bool {
	var letters []rune
	var first *unicode.RangeTable
	single := true
	for _, r := range s {
		script := scriptOf(r)
		if script == nil {
			continue
		}
		letters, first = append(letters, r), cmp.Or(first, script)
		single = single && script == first
	}
	return !single && !slices.ContainsFunc(scriptSets[:], func(set []*unicode.RangeTable) bool {
		return !slices.ContainsFunc(letters, func(r rune) bool { return !unicode.In(r, set...) })
	})
}

// scriptOf returns the script of a character; nil if several scripts share it, or it has none.
func scriptOf(r rune) *unicode.RangeTable {
	if unicode.In(r, unicode.Common, unicode.Inherited) {
		return nil
	}
	for _, frequent := range scriptSets[0] {
		if unicode.Is(frequent, r) {
			return frequent
		}
	}
	for _, script := range unicode.Scripts {
		if unicode.Is(script, r) {
			return script
		}
	}
	return nil
}
