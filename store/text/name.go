package text

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"callbook/store/search"
)

// reservedWords could be mistaken for the service, its operator or everybody. No part of a handle and no word of
// a name may consist of them, also with the word team among them, and none may contain siteName. They are sorted.
var reservedWords = []string{
	"abuse", "admin", "administrator", "anonymous", "api", "ard", "callbook", "dev", "everyone", "help", "mcp", "moderator", "null",
	"official", "operator", "owner", "postmaster", "root", "security", "staff", "support", "sysadmin", "system", "undefined", "webmaster",
}

// reservedHandles are further words that no whole handle may be. They are sorted.
var reservedHandles = []string{
	"about", "agents", "billing", "calls", "guanfang", "guanfangkefu", "guanliyuan", "hostmaster", "info", "login", "mail", "mailerdaemon", "new",
	"nobody", "noreply", "openapi", "skill", "status", "verify", "www", "xitongguanliyuan",
}

// leastPieces is the least length of a reserved word that is found in pieces, as in "Call Book Bot".
const leastPieces = 5

// siteName matches the name of the site in a folded word, and reservedWord a folded word that consists of reserved
// ones.
var (
	siteName     = regexp.MustCompile(`ca[l?]{2}book`)
	reservedWord = regexp.MustCompile(strings.ReplaceAll(`^(team)*W(team|W)*$`, "W",
		"("+strings.NewReplacer("i", "[i?]", "l", "[l?]").Replace(strings.Join(reservedWords, "|"))+")"))
)

// chineseRoles matches Chinese words for the site, its operator or everybody, with others that may stand with
// them. Chinese has no spaces: only a text that consists of such words is reserved ("图书管理员" is a librarian).
var chineseRoles = regexp.MustCompile(strings.ReplaceAll(`^B*(官方|本站|系[统統]|管理[员員]|站[长長]|版主|[运運][营營](方|者|团队|團隊|人员|人員)|安全中心|全[体體]成[员員]|匿名|(平台|[网網]站)(客服|通知|公告|[团團][队隊]|[运運][营營]))(B|官方|管理[员員])*$`,
	"B", `(客服|支持|通知|消息|公告|[团團][队隊]|安全|管理|中心|人[员員]|[账帳][号號]|小?助手|[机機]器人|平台|[网網]站|[运運][营營]|[号號一二三四五六七八九十0-9a-z?])`))

// lookAlikes replaces digits and pairs by the letters that they resemble; "?" is i or l.
var lookAlikes = strings.NewReplacer("0", "o", "1", "?", "3", "e", "4", "a", "5", "s", "8", "b", "rn", "m", "vv", "w")

// signTwins are signs that stand for letters within a word.
var signTwins = map[rune]rune{'@': 'a', '$': 's', '!': '|'}

// ambiguous are the letters and signs that look like i or l, as they are written.
var ambiguous = strings.NewReplacer("I", "?", "|", "?", "ǀ", "?", "Ɩ", "?", "ɪ", "?", "І", "?", "Ӏ", "?", "ӏ", "?")

// latinTwins replaces the small Cyrillic letters that, small or capital, look like Latin ones, small
// capitals, letters with a stroke, and the letters of Lisu. A name of one script could otherwise be taken for a
// word of another.
var latinTwins = strings.NewReplacer(
	"а", "a", "в", "b", "ь", "b", "с", "c", "ԁ", "d", "е", "e", "һ", "h", "н", "h", "і", "i", "ј", "j", "к", "k",
	"м", "m", "о", "o", "р", "p", "ѕ", "s", "т", "t", "у", "y", "х", "x", "ѵ", "v",
	"ᴀ", "a", "ʙ", "b", "ᴄ", "c", "ᴅ", "d", "ᴇ", "e", "ꜰ", "f", "ʜ", "h", "ᴋ", "k", "ʟ", "l", "ᴍ", "m", "ɴ", "n",
	"ᴏ", "o", "ᴘ", "p", "ʀ", "r", "ꜱ", "s", "ᴛ", "t", "ᴜ", "u", "ᴠ", "v", "ᴡ", "w", "ʏ", "y", "ɑ", "a",
	"ø", "o", "ł", "l", "đ", "d", "ħ", "h", "ŧ", "t", "ƀ", "b", "ꓐ", "b", "ꓑ", "p", "ꓓ", "d", "ꓔ", "t", "ꓗ", "k", "ꓚ", "c", "ꓝ", "f",
	"ꓟ", "m", "ꓠ", "n", "ꓡ", "l", "ꓢ", "s", "ꓣ", "r", "ꓦ", "v", "ꓧ", "h", "ꓪ", "w", "ꓬ", "y", "ꓮ", "a", "ꓰ", "e", "ꓲ", "?", "ꓳ", "o", "ꓴ", "u",
)

// capitalTwins are the small Cyrillic letters of which only the capitals look like Latin ones. In a word of
// at most shortWord letters they count for no twins, since such words resemble reserved ones by chance.
const (
	capitalTwins = "вмнт"
	shortWord    = 3
)

// enclosedAlphabets are the first of 26 letters in boxes, circles and parentheses that Unicode does not
// decompose to letters alone.
var enclosedAlphabets = [...]rune{'⒜', '🄐', '🅐', '🅰', '🇦'}

// ReservedHandle reports whether a handle is reserved for the service. Of the whole handle hyphens do not
// count, so that "admin-" and "call-book" are reserved as well.
func ReservedHandle(s string) bool {
	_, found := slices.BinarySearch(reservedHandles, strings.ReplaceAll(s, "-", ""))
	return found || holdsReserved(strings.Split(s, "-"))
}

// holdsReserved reports whether one of some words is reserved, or all of them together are, or neighbours among them
// are the pieces of a longer reserved word.
func holdsReserved(words []string) bool {
	all := lookAlikes.Replace(strings.Join(words, ""))
	if slices.ContainsFunc(words, isReserved) || reservedWord.MatchString(all) || chineseRoles.MatchString(all) {
		return true
	}
	for i := range words {
		run := ""
		for _, word := range words[i:] {
			if run += lookAlikes.Replace(word); len(run) > len("administrator") {
				break
			}
			if len(run) >= leastPieces && reservedWord.MatchString(run) {
				return true
			}
		}
	}
	return false
}

// isReserved reports whether a folded word consists of reserved words, or contains the name of the site.
func isReserved(word string) bool {
	word = lookAlikes.Replace(word)
	return siteName.MatchString(word) || reservedWord.MatchString(word) || chineseRoles.MatchString(word)
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
// like a reserved one, whether symbols that contain letters separate words or are part of them.
func CheckName(s string) NameFault {
	switch {
	case !strings.ContainsFunc(search.Fold(s), isWordRune):
		return NameBlank
	case mixesScripts(s):
		return NameMixed
	case holdsReserved(wordsOf(s, false)), holdsReserved(wordsOf(s, true)):
		return NameReserved
	}
	return ""
}

// CheckOwner returns NameReserved for an owner's name of which a word contains the name of the site.
func CheckOwner(s string) (fault NameFault) {
	if siteName.MatchString(lookAlikes.Replace(strings.Join(wordsOf(s, true), " "))) {
		fault = NameReserved
	}
	return fault
}

// NameForm returns a form that names which look alike share.
func NameForm(s string) string {
	return strings.NewReplacer("i", "?", "l", "?").Replace(lookAlikes.Replace(strings.Join(wordsOf(s, false), "")))
}

func isWordRune(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// wordsOf cuts a name at what is no letter or digit and where the script changes, and then folds the words.
func wordsOf(s string, symbols bool) []string {
	var b strings.Builder
	var script *unicode.RangeTable // of the last letter
	for _, r := range s {
		form := " "
		if isWordRune(r) || symbols || unicode.Is(unicode.M, r) {
			form = norm.NFKD.String(string(openLetter(r)))
		}
		for _, c := range form {
			if twin, ok := signTwins[c]; ok {
				c = twin
			}
			switch next := scriptOf(c); {
			case unicode.Is(unicode.M, c):
				continue
			case !isWordRune(c) && (c != '|' || !symbols):
				c = ' '
			case next != nil:
				if script != nil && next != script {
					b.WriteByte(' ')
				}
				script = next
			}
			b.WriteRune(c)
		}
	}
	words := strings.Fields(b.String())
	for i, word := range words {
		words[i] = foldWord(word)
	}
	return words
}

// openLetter returns the letter in an enclosed one, or else the character itself.
func openLetter(r rune) rune {
	for _, first := range enclosedAlphabets {
		if first <= r && r < first+26 {
			return 'a' + r - first
		}
	}
	return r
}

// foldWord replaces what resembles small Latin letters in a word as it is written.
func foldWord(word string) string {
	if others := strings.ReplaceAll(word, "l", ""); others == strings.ToUpper(others) {
		word = strings.ReplaceAll(word, "l", "?") // among capitals
	}
	folded := search.Fold(ambiguous.Replace(word))
	if utf8.RuneCountInString(word) <= shortWord && strings.ContainsAny(word, capitalTwins) {
		return folded
	}
	return latinTwins.Replace(folded)
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
