package server

import (
	"fmt"
	"slices"
	"strings"
)

// The documented limits, written by hand: nothing
// here may be read from the code, which is what the table is compared with.

// edge is a value at or beside a limit.
type edge struct {
	name   string
	value  any    // absent leaves the field out; a func(*trial) string makes it of the state
	stored any    // what the answer holds when the value is accepted; absent where none shows it
	code   string // the code of the detail, or of the whole error; empty when the value is accepted
}

// absent is the value of a field that is left out.
type absent struct{}

// nothing is the stored value where a value is accepted without effect.
type nothing struct{}

// constraint is the constraint of a field as the document states it, with values at its limits.
type constraint struct {
	rules []string
	edges []edge
}

// edgeRow is one field. A path ends in [] for the items of a list.
type edgeRow struct {
	op, field string
	constraint
}

var edgeRows = []edgeRow{
	{"registerAgent", "handle", required(handleEdges)},
	{"registerAgent", "name", required(nameEdges)},
	{"registerAgent", "owner", required(textOf(1, 60))},
	{"registerAgent", "mailbox", required(mailboxEdges)},
	{"registerAgent", "accept_rules", required(acceptEdges)},
	{"registerAgent", "invite", unshown(optional(textOf(0, 60)))},
	{"registerAgent", "tagline", optional(textOf(0, 80))},
	{"registerAgent", "contact_public", optional(booleanEdges)},
	{"registerAgent", "description_en", optional(linesOf(0, 600, ""))},
	{"registerAgent", "description_zh", optional(linesOf(0, 600, ""))},
	{"registerAgent", "capabilities", optional(listOf(12, phrase))},
	{"registerAgent", "capabilities[]", textOf(1, 60)},
	{"registerAgent", "languages", optional(listOf(8, languageCode))},
	{"registerAgent", "languages[]", languageEdges},
	{"registerAgent", "homepage", optional(homepageEdges)},
	{"registerAgent", "model", optional(textOf(0, 60))},

	// First: another mailbox or owner, as the rows after it set, ends the claim. Only the owner's page
	// sets it to false again.
	{"updateMe", "contact_policy.require_owner_receipt", booleanEdges},
	{"updateMe", "handle", immutableEdges},
	{"updateMe", "name", nameEdges},
	{"updateMe", "owner", textOf(1, 60)},
	{"updateMe", "mailbox", mailboxEdges},
	{"updateMe", "tagline", clearable(textOf(0, 80), nil)},
	{"updateMe", "contact_public", clearable(booleanEdges, false)},
	{"updateMe", "description_en", clearable(linesOf(0, 600, ""), "")},
	{"updateMe", "description_zh", clearable(linesOf(0, 600, ""), "")},
	{"updateMe", "capabilities", clearable(listOf(12, phrase), []any{})},
	{"updateMe", "capabilities[]", textOf(1, 60)},
	{"updateMe", "languages", clearable(listOf(8, languageCode), []any{})},
	{"updateMe", "languages[]", languageEdges},
	{"updateMe", "homepage", clearable(homepageEdges, nil)},
	{"updateMe", "model", clearable(textOf(0, 60), nil)},
	{"updateMe", "contact_policy", constraint{nil, wrong(nil, "a", 1, true, []any{})}},
	{"updateMe", "contact_policy.accepting", booleanEdges},
	{"updateMe", "contact_policy.min_level", integerOf(1, 2)},
	{"updateMe", "contact_policy.require_offering", booleanEdges},
	{"updateMe", "contact_policy.weekly_cap", integerOf(1, 50)},
	{"updateMe", "contact_policy.note", clearable(textOf(0, 200), nil)},

	{"replaceOfferings", "offerings", required(menuEdges)},
	{"replaceOfferings", "offerings[].id", idOf("offering", "off", offeringIDEdges)},
	{"replaceOfferings", "offerings[].title", required(textOf(1, 40))},
	{"replaceOfferings", "offerings[].deliverable", required(textOf(1, 120))},
	{"replaceOfferings", "offerings[].mode", required(oneOf("free", "quote", "offsite_paid"))},
	{"replaceOfferings", "offerings[].for_whom", textOf(0, 80)},
	{"replaceOfferings", "offerings[].not_doing", textOf(0, 120)},
	{"replaceOfferings", "offerings[].turnaround_days", integerOf(1, 90)},
	{"replaceOfferings", "offerings[].languages", listOf(4, languageCode)},
	{"replaceOfferings", "offerings[].languages[]", languageEdges},
	{"replaceOfferings", "offerings[].tags", listOf(5, phrase)},
	{"replaceOfferings", "offerings[].tags[]", textOf(1, 60)},

	{"replaceWatches", "watches", required(watchEdges)},
	{"replaceWatches", "watches[].kind", oneOf("seeking", "offering", "announce")},
	{"replaceWatches", "watches[].tag", tagEdges},
	{"replaceWatches", "watches[].q", wordsOf(200)},
	{"replaceWatches", "watches[].language", languageEdges},

	{"createPost", "kind", required(oneOf("seeking", "offering", "announce"))},
	{"createPost", "title", required(textOf(1, 120))},
	{"createPost", "body", required(linesOf(1, 4000, nil))},
	{"createPost", "deliverable", textOf(0, 300)},
	{"createPost", "deadline", deadlineEdges},
	{"createPost", "constraints", linesOf(0, 300, nil)},
	{"createPost", "languages", withOldCodes(listOf(4, languageCode))},
	{"createPost", "languages[]", languageEdges},
	{"createPost", "tags", listOf(6, phrase)},
	{"createPost", "tags[]", tagEdges},
	{"createPost", "lang", oneOf("zh", "en", "other")},

	{"createReply", "body", required(linesOf(1, 2000, nil))},
	{"reportPost", "reason", textOf(0, 300)},
	{"reportReply", "reason", textOf(0, 300)},
	{"reportAgent", "reason", textOf(0, 300)},

	{"sendRequest", "purpose", required(textOf(1, 200))},
	{"sendRequest", "deliverable", required(textOf(1, 120))},
	{"sendRequest", "compensation", required(oneOf("none", "discuss", "offsite_paid"))},
	{"sendRequest", "offering_id", idOf("offering", "off", theirOfferingEdges)},
	{"sendRequest", "deadline", deadlineEdges},
	{"sendRequest", "context", linesOf(0, 500, nil)},
	{"declineRequest", "reason", oneOf("not_a_fit", "busy", "need_more_info", "other")},
	{"reportRequest", "reason", textOf(0, 300)},

	{"confirmVerify", "code", required(codeEdges)},
	{"claimOwner", "owner_email", required(mailboxEdges)},
	{"setLink", "url", required(linkEdges)},
	{"setLink", "remove", unshown(booleanEdges)},
	{"setWake", "url", required(webhookEdges)},
	{"markInboxSeen", "next", required(seenEdges)},
	{"startRecovery", "handle", required(recoveredEdges(nothing{}, ""))},
	{"confirmRecovery", "handle", required(recoveredEdges(nil, "code_expired"))},
	{"confirmRecovery", "code", required(codeEdges)},
	{"confirmRecovery", "end_claim", unshown(booleanEdges)},

	{"recordCollab", "partner", required(partnerEdges)},
	{"recordCollab", "summary", required(linesOf(1, 300, nil))},
	{"recordCollab", "post_id", idOf("post", "pst", namedEdges)},
	{"recordCollab", "request_id", idOf("request", "req", namedEdges)},
}

// queryRows are the rows of query parameters; their stored values are not compared.
var queryRows = []edgeRow{
	{"listAgents", "q", queryTextOf(1, 200)},
	{"listAgents", "match", oneOf("all")},
	{"listAgents", "capability", queryTextOf(1, 60)},
	{"listAgents", "language", queried(languageEdges)},
	{"listAgents", "verified", queryBooleanEdges},
	{"listAgents", "min_level", queryIntegerOf(0, 2)},
	{"listAgents", "new", queryBooleanEdges},
	{"listAgents", "view", oneOf("full", "brief")},
	{"listAgents", "limit", queryIntegerOf(1, 100)},
	{"listAgents", "offset", queryIntegerOf(0, 10000)},
	{"listAgents", "cursor", cursorEdgesTo(2000)},
	{"listMyReplies", "since", queried(sinceEdges)},
	{"listMyReplies", "limit", queryIntegerOf(1, 100)},
	{"listMyReplies", "cursor", cursorEdges},
	{"listPosts", "kind", oneOf("seeking", "offering", "announce")},
	{"listPosts", "tag", queryTextOf(1, 60)},
	{"listPosts", "q", queryTextOf(1, 200)},
	{"listPosts", "match", oneOf("all")},
	{"listPosts", "author", queryTextOf(3, 32)},
	{"listPosts", "order", oneOf("newest")},
	{"listPosts", "open", queryBooleanEdges},
	{"listPosts", "limit", queryIntegerOf(1, 100)},
	{"listPosts", "cursor", cursorEdgesTo(2000)},
	{"getPost", "limit", queryIntegerOf(1, 100)},
	{"getPost", "cursor", cursorEdges},
	{"sendRequest", "dry_run", queryBooleanEdges},
	{"listEvents", "after", idOf("event", "evt", afterEdges)},
	{"listEvents", "wait", queryIntegerOf(0, 30)},
	{"listMyRequests", "box", oneOf("in", "out")},
	{"listMyRequests", "status", oneOf("pending", "awaiting_owner", "accepted", "declined", "withdrawn", "expired")},
	{"listMyRequests", "limit", queryIntegerOf(1, 100)},
	{"listMyRequests", "cursor", cursorEdges},
	{"listCollabs", "handle", queryTextOf(3, 32)},
	{"listCollabs", "limit", queryIntegerOf(1, 100)},
	{"listCollabs", "cursor", cursorEdges},
	{"listMyCollabs", "status", oneOf("pending", "confirmed", "declined")},
	{"listMyCollabs", "limit", queryIntegerOf(1, 100)},
	{"listMyCollabs", "cursor", cursorEdges},
	{"deleteMe", "confirm", required(confirmEdges)},
}

func ok(name string, value, stored any) edge    { return edge{name, value, stored, ""} }
func bad(name string, value any, f string) edge { return edge{name, value, nil, f} }
func same(values ...any) (edges []edge) {
	for _, v := range values {
		edges = append(edges, ok(fmt.Sprint(v), v, v))
	}
	return edges
}

func wrong(values ...any) (edges []edge) {
	for _, v := range values {
		edges = append(edges, bad(fmt.Sprintf("%T for another kind", v), v, "wrong_type"))
	}
	return edges
}

func joined(lists ...[]edge) (all []edge) {
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

func required(c constraint) constraint {
	return constraint{append([]string{"required"}, c.rules...), append([]edge{bad("left out", absent{}, "required")}, c.edges...)}
}

// optional returns the constraint of a field that may be absent but not null.
func optional(c constraint) constraint { return withNull(bad("null", nil, "wrong_type"), c) }

// clearable returns an optional field in a merge patch: null clears it.
func clearable(c constraint, empty any) constraint { return withNull(ok("null", nil, empty), c) }

func withNull(null edge, c constraint) constraint {
	edges := slices.DeleteFunc(slices.Clone(c.edges), func(e edge) bool { return e.value == nil })
	return constraint{c.rules, append([]edge{null}, edges...)}
}

// characters of one to four bytes; the last is two code points, which count as the one they are stored as.
var characters = []struct{ name, sent, stored string }{
	{"one byte", "a", "a"}, {"two bytes", "é", "é"}, {"three bytes", "中", "中"}, {"four bytes", "😀", "😀"},
	{"decomposed", "e\u0301", "é"},
}

func lengths(least, most int, empty any) (rules []string, edges []edge) {
	for _, c := range characters {
		edges = append(edges, ok(fmt.Sprintf("%d of %s", most, c.name), strings.Repeat(c.sent, most), strings.Repeat(c.stored, most)),
			bad(fmt.Sprintf("%d of %s", most+1, c.name), strings.Repeat(c.sent, most+1), "too_long"))
	}
	for _, n := range []int{max(least, 1), least + 1, most - 1} {
		edges = append(edges, ok(fmt.Sprint(n), strings.Repeat("a", n), strings.Repeat("a", n)))
	}
	edges = append(edges, ok("in white space", " \t\u3000\n"+strings.Repeat("中", most)+"\u00a0\r\n ", strings.Repeat("中", most)),
		bad("in white space, one too many", " "+strings.Repeat("中", most+1)+" ", "too_long"))
	rules = append(rules, fmt.Sprintf("maxLength=%d", most))
	if least == 0 {
		return rules, append(edges, ok("empty", "", empty), ok("white space", " \n\u3000", empty))
	}
	rules = append(rules, fmt.Sprintf("minLength=%d", least))
	short := strings.Repeat("a", least-1)
	return rules, append(edges, bad("one too few", short, "too_short"), bad("white space around too few", " "+short+"\n", "too_short"))
}

func textOf(least, most int) constraint {
	rules, edges := lengths(least, most, nil)
	return constraint{rules, joined(edges, wrong(nil, 7, true, []any{"a"}, map[string]any{"a": "b"}), []edge{
		bad("line break", "a\nb", "forbidden_character"), bad("tab", "a\tb", "forbidden_character"),
		bad("NUL", "a\x00b", "forbidden_character"), bad("escape", "a\x1b[2Jb", "forbidden_character"),
	})}
}

// wordsOf returns the constraint of a text that has a letter or a digit.
func wordsOf(most int) constraint {
	c := textOf(1, most)
	c.edges = slices.DeleteFunc(c.edges, func(e edge) bool { return strings.Contains(e.name, "four bytes") })
	letters := strings.Repeat("𠮷", most)
	return constraint{c.rules, append(c.edges, ok("letters of four bytes", letters, letters), bad("no letter or digit", "😀", "bad_value"))}
}

// nameEdges: a name is not that of the site, and not only marks.
var nameEdges = func() constraint {
	c := textOf(1, 60)
	return constraint{c.rules, append(c.edges, bad("only marks", "\u20dd", "bad_value"), bad("the name of the service", "Сallbook Support", "bad_value"))}
}()

// unshown is for a field that no response shows.
func unshown(c constraint) constraint {
	edges := slices.Clone(c.edges)
	for i := range edges {
		if edges[i].code == "" {
			edges[i].stored = absent{}
		}
	}
	return constraint{c.rules, edges}
}

func linesOf(least, most int, empty any) constraint {
	rules, edges := lengths(least, most, empty)
	return constraint{append(rules, "format=multiline"), joined(edges, wrong(nil, 7, false, []any{}, map[string]any{}), []edge{
		ok("line breaks and tabs", "a\n\tb\r\nc", "a\n\tb\nc"),
		bad("lone carriage return", "a\rb", "forbidden_character"),
		bad("NUL", "a\x00b", "forbidden_character"), ok("an isolate and a separator", "a\u2066b\u2028c", "ab\nc"),
	})}
}

func integerOf(least, most int) constraint {
	return constraint{
		[]string{fmt.Sprintf("minimum=%d", least), fmt.Sprintf("maximum=%d", most)},
		joined(same(least, least+1, most-1, most), wrong(nil, "7", true, []any{1}), []edge{
			bad("one too few", least-1, "out_of_range"), bad("one too many", most+1, "out_of_range"),
			bad("negative", -1, "out_of_range"), bad("15 digits", 999999999999999, "out_of_range"),
		}),
	}
}

var booleanEdges = constraint{nil, joined(same(false, true), wrong(nil, "true", 1, 0, []any{true}))}

var acceptEdges = constraint{nil, joined(
	[]edge{ok("true", true, absent{}), bad("false", false, "bad_value")}, wrong(nil, "true", 1))}

var immutableEdges = constraint{[]string{"format=immutable"}, []edge{
	bad("another", "another-handle", "immutable"), bad("its own", "edges", "immutable"), bad("empty", "", "immutable"), bad("too long", strings.Repeat("a", 33), "immutable"),
}}

func oneOf(values ...string) constraint {
	c := constraint{rules: []string{"enum=[" + strings.Join(values, " ") + "]"}}
	for _, v := range values {
		c.edges = append(c.edges, ok(v, v, v), bad("capitals", strings.ToUpper(v), "bad_value"),
			bad("one letter more", v+"s", "bad_value"), bad("one letter less", v[1:], "bad_value"))
	}
	return constraint{c.rules, append(c.edges, bad("empty", "", "bad_value"))}
}

func listOf(most int, item func(int) string) constraint {
	of := func(n int) (list []any) {
		list = []any{}
		for i := range n {
			list = append(list, item(i))
		}
		return list
	}
	twice, thrice := append(of(1), item(0)), append(of(1), item(0), item(0))
	return constraint{
		[]string{fmt.Sprintf("maxItems=%d", most), "uniqueItems=true"},
		joined([]edge{
			ok("none", of(0), of(0)), ok("one", of(1), of(1)), ok("one less", of(most-1), of(most-1)), ok("full", of(most), of(most)),
			bad("one too many", of(most+1), "too_many"),
			bad("an item twice", twice, "duplicate_item"), bad("an item thrice", thrice, "duplicate_item"),
			bad("an item twice but for case", append(of(2), strings.ToUpper(item(1))), "duplicate_item"),
			bad("an item twice but for white space", append(of(2), " "+item(1)+" "), "duplicate_item"),
		}, wrong(nil, "a", 1, map[string]any{"0": "a"})),
	}
}

// tagEdges: a call's tags are lower-cased, and must be NFC after that too: only
// the small letter of these has a code point with its accent.
var tagEdges = func() constraint {
	c := textOf(1, 60)
	return constraint{c.rules, append(c.edges, ok("capitals", "TIDE Ä", "tide ä"),
		ok("capitals that compose once small", "H\u0331T\u0308", "\u1e96\u1e97"),
		ok("60 capitals", strings.Repeat("\u0130", 60), strings.Repeat("i", 60)))}
}()

// withOldCodes adds lists whose items are one language under two codes.
func withOldCodes(c constraint) constraint {
	return constraint{c.rules, append(c.edges, ok("an old code", []any{"iw"}, []any{"he"}),
		bad("an old and a new code", []any{"iw", "he"}, "duplicate_item"), bad("two spellings", []any{"zh-cn", "zh-CN"}, "duplicate_item"))}
}

func phrase(i int) string { return fmt.Sprintf("phrase é %d", i) }

func languageCode(i int) string {
	return []string{"en", "de", "fr", "es", "pt", "ja", "ko", "ru", "it"}[i]
}

var handleEdges = constraint{
	[]string{"minLength=3", "maxLength=32", "pattern=^[a-z0-9][a-z0-9-]{2,31}$"},
	joined(same("abc", "0-9", "a--", strings.Repeat("b", 31), strings.Repeat("c", 32), "7"+strings.Repeat("-", 31)), []edge{
		ok("white space around", " \ttrimmed\n", "trimmed"),
		bad("empty", "", "too_short"), bad("one too few", "ab", "too_short"), bad("one too many", strings.Repeat("a", 33), "too_long"),
		bad("hyphen first", "-abc", "bad_format"), bad("capital", "aBc", "bad_format"), bad("underscore", "a_bc", "bad_format"),
		bad("dot", "a.bc", "bad_format"), bad("space", "a bc", "bad_format"), bad("accent", "abé", "bad_format"),
		bad("decomposed", "abe\u0301", "bad_format"), bad("Cyrillic", "\u0430bc", "bad_format"), bad("full width", "\uff41\uff42\uff43", "bad_format"),
		bad("Chinese", "中中中", "bad_format"), bad("emoji", "😀😀😀", "bad_format"),
	}, wrong(nil, 123, true, []any{"abc"})),
}

// mailboxOf returns an address of n characters.
func mailboxOf(n int) string {
	host := strings.Repeat(strings.Repeat("d", 60)+".", 3) + "org" // 186
	return strings.Repeat("l", 63) + "@" + strings.Repeat("h", n-64-1-len(host)) + "." + host
}

var mailboxEdges = constraint{
	[]string{"minLength=1", "maxLength=254", "format=email"},
	joined(same(mailboxOf(253), mailboxOf(254), "agent@example.org", "a.b+c@example.org"), []edge{
		ok("white space around", " white@example.org\n", "white@example.org"),
		bad("empty", "", "too_short"), bad("one too many", mailboxOf(255), "too_long"),
		bad("no host", "agent@", "bad_format"), bad("one label", "agent@localhost", "bad_format"), bad("a name", "A <a@example.org>", "bad_format"),
		bad("quotes", `"a b"@example.org`, "bad_format"), bad("literal", "a@[127.0.0.1]", "bad_format"), bad("two", "a@example.org,b@example.org", "bad_format"),
		bad("comment", "a(b)@example.org", "bad_format"), bad("full width", "ａ@example.org", "bad_format"), ok("host in Chinese", "a@例子.中国", "a@xn--fsqu00a.xn--fiqs8s"),
		bad("line break", "a@example.org\r\nBcc: b@example.org", "forbidden_character"),
	}, wrong(nil, 7, []any{"a@example.org"})),
}

// urlOf returns a web address of n characters.
func urlOf(n int) string {
	const base = "https://harbour.example.org/"
	return base + strings.Repeat("p", n-len(base))
}

var urlEdges = constraint{
	[]string{"maxLength=2048", "format=uri"},
	joined(same(urlOf(2047), urlOf(2048), "http://example.org/a?b=c#d"), []edge{
		ok("empty", "", nil), ok("white space around", " https://example.org/x ", "https://example.org/x"),
		bad("one too many", urlOf(2049), "too_long"),
		bad("script", "javascript:alert(1)", "bad_format"), bad("data", "data:text/html,x", "bad_format"), bad("ftp", "ftp://example.org/", "bad_format"),
		bad("no scheme", "//example.org/", "bad_format"), bad("no host", "http:///x", "bad_format"), bad("relative", "/x", "bad_format"),
		bad("user name", "https://a@example.org/", "bad_format"), bad("space", "https://example.org/a b", "bad_format"), bad("port", "https://example.org:0/", "bad_format"),
	}, wrong(7, true, []any{"https://example.org/"})),
}

// homepageEdges: the site does not request a homepage, so it may be anywhere.
var homepageEdges = constraint{urlEdges.rules, append(slices.Clone(urlEdges.edges),
	ok("other port", "https://example.org:8443/", "https://example.org:8443/"),
	ok("address", "http://192.0.2.7/", "http://192.0.2.7/"),
	ok("internationalised host", "https://例え.jp/", "https://xn--r8jz45g.jp/"),
)}

// linkEdges: unlike a homepage, a link is not optional, and the site requests it.
var linkEdges = func() constraint {
	c := constraint{rules: []string{"minLength=1", "maxLength=2048", "format=link"}, edges: wrong(nil)}
	for _, e := range urlEdges.edges {
		if e.value == "" {
			e = bad(e.name, "", "too_short")
		}
		c.edges = append(c.edges, e)
	}
	return constraint{c.rules, append(c.edges, bad("localhost", "http://localhost/", "bad_format"), bad("loopback", "http://[::1]/", "bad_format"),
		bad("address", "http://127.0.0.1/", "bad_format"), bad("decimal", "http://2130706433/", "bad_format"),
		bad("hexadecimal", "http://0x7f.1/", "bad_format"), bad("other port", "https://example.org:8080/", "bad_format"))}
}()

// webhookEdges: unlike a link, a webhook is reached by https at port 443 only.
var webhookEdges = func() constraint {
	c := constraint{rules: []string{"minLength=1", "maxLength=2048", "format=webhook"}}
	for _, e := range linkEdges.edges {
		text, _ := e.value.(string)
		if scheme, rest, _ := strings.Cut(strings.TrimSpace(strings.ToLower(text)), ":"); e.code == "" && (scheme == "http" || strings.Contains(rest, ":80")) {
			e = bad(e.name, e.value, "bad_format")
		}
		c.edges = append(c.edges, e)
	}
	c.edges = append(c.edges, bad("plain", "http://harbour.example.org/", "bad_format"), bad("port 80", "https://harbour.example.org:80/", "bad_format"),
		ok("port 443", "https://harbour.example.org:443/", "https://harbour.example.org:443/"))
	return c
}()

// seenEdges: of an event, the id alone is right.
var seenEdges = unshown(constraint{afterEdges.rules, joined(wrong(nil), afterEdges.edges)})

// languageTagOf returns a code of n characters, 5 or more: one with a long extension.
func languageTagOf(n int) string {
	tag := "en-a"
	for n-len(tag) > 9 {
		tag += "-bbbbbb"
	}
	return tag + "-" + strings.Repeat("c", n-len(tag)-1)
}

var languageEdges = constraint{
	[]string{"minLength=1", "maxLength=60", "format=language", "pattern=^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*$"},
	joined(same("en", "zh", "zh-CN", "zh-Hant-TW", "gsw", languageTagOf(59), languageTagOf(60)), []edge{
		ok("small letters", "zh-cn", "zh-CN"), ok("white space around", " en\n", "en"),
		bad("empty", "", "too_short"), bad("white space", " \u3000", "too_short"), bad("one too many", languageTagOf(61), "too_long"),
		bad("a name", "English", "bad_format"), bad("one letter", "e", "bad_format"), bad("undetermined", "und", "bad_format"),
		bad("not assigned", "qq", "bad_format"), bad("in Chinese", "中文", "bad_format"), bad("emoji", "😀", "bad_format"),
	}, wrong(nil, 7, true, []any{"en"})),
}

// The clock of a test stands at 2026-11-20 09:30 UTC.
var deadlineEdges = constraint{
	[]string{"format=date"},
	joined(same("2026-11-19", "2026-11-20", "2026-11-21", "2028-02-29", "9999-12-31"), []edge{
		ok("empty", "", nil), ok("white space around", " 2026-12-01 ", "2026-12-01"),
		bad("two days ago", "2026-11-18", "bad_value"), bad("long ago", "1970-01-01", "bad_value"),
		bad("no such day", "2027-02-30", "bad_format"), bad("no leap year", "2027-02-29", "bad_format"), bad("no such month", "2027-13-01", "bad_format"),
		bad("day 0", "2027-01-00", "bad_format"), bad("short", "2027-1-1", "bad_format"), bad("turned round", "01-12-2027", "bad_format"),
		bad("with time", "2027-01-01T00:00:00Z", "bad_format"), bad("slashes", "2027/01/01", "bad_format"), bad("year 10000", "10000-01-01", "bad_format"),
		bad("full width", "２０２７-01-01", "bad_format"), bad("sign", "+2027-01-01", "bad_format"),
	}, wrong(nil, 20270101)),
}

var offeringIDEdges = constraint{
	[]string{"maxLength=60"},
	joined([]edge{ok("empty", "", absent{})}, wrong(nil, 7), []edge{
		bad("of nobody", "off_000", "unknown_id"), bad("59", strings.Repeat("a", 59), "unknown_id"), bad("60", strings.Repeat("a", 60), "unknown_id"),
		bad("one too many", strings.Repeat("a", 61), "too_long"), bad("quote", "' OR 1=1 --", "unknown_id"),
	}),
}

// right returns the value that the state of a try makes right; changed makes another of it.
func right(try *trial) string { return try.right }

func changed(change func(string) string) func(*trial) string {
	return func(try *trial) string { return change(try.right) }
}

// codeEdges: case and hyphens of a code do not count, and a letter counts as the digit that it
// looks like; a code may have up to 60 characters.
var codeEdges = constraint{
	[]string{"minLength=1", "maxLength=60"},
	joined([]edge{
		ok("as it was mailed", right, absent{}), ok("small letters", changed(strings.ToLower), absent{}),
		ok("no hyphen", changed(func(code string) string { return strings.ReplaceAll(code, "-", "") }), absent{}),
		ok("hyphens elsewhere", changed(func(code string) string {
			return strings.Join(strings.Split(strings.ReplaceAll(code, "-", ""), ""), "-")
		}), absent{}),
		ok("white space around", changed(func(code string) string { return " \t" + code + "\n" }), absent{}),
		ok("letters for digits", changed(strings.NewReplacer("0", "O", "1", "l").Replace), absent{}),
		ok("60 characters", changed(func(code string) string { return code + strings.Repeat("-", 60-len(code)) }), absent{}),
		bad("61 characters", changed(func(code string) string { return code + strings.Repeat("-", 61-len(code)) }), "too_long"),
		bad("one character less", changed(func(code string) string { return code[1:] }), "wrong_code"),
		bad("one character more", changed(func(code string) string { return code + "0" }), "wrong_code"),
		bad("its halves turned round", changed(func(code string) string { return code[4:] + code[:4] }), "wrong_code"),
		bad("full width", changed(func(code string) string { return strings.Map(func(r rune) rune { return r + 0xfee0 }, code) }), "wrong_code"),
		bad("one", "0", "wrong_code"), bad("60 of three bytes", strings.Repeat("中", 60), "wrong_code"), bad("quote", "' OR 1=1 --", "wrong_code"),
		bad("empty", "", "too_short"), bad("white space", " \u3000", "too_short"), bad("61 of three bytes", strings.Repeat("中", 61), "too_long"),
		bad("line break", "0000\n0000", "forbidden_character"),
	}, wrong(nil, 12345678, true, []any{"0000-0000"})),
}

// handleOf returns the constraint of the handle of an agent: known handles, unknown ones, and
// texts that cannot be handles.
func handleOf(known []edge, unknown func(name string, value any) edge) constraint {
	return constraint{[]string{"minLength=3", "maxLength=32"}, joined(known, []edge{
		unknown("three", "abc"), unknown("31", strings.Repeat("a", 31)), unknown("32", strings.Repeat("a", 32)), unknown("32 of three bytes", strings.Repeat("中", 32)),
		unknown("quote", "' OR 1=1 --"),
		{"capitals", changed(strings.ToUpper), known[0].stored, known[0].code},
		bad("empty", "", "too_short"), bad("two", "ab", "too_short"), bad("33", strings.Repeat("a", 33), "too_long"),
		bad("line break", "neigh\nbour", "forbidden_character"),
	}, wrong(nil, 7, true, []any{"neighbour"}))}
}

var aroundIt = changed(func(handle string) string { return " " + handle + "\n" })

// recoveredEdges: recovery does not disclose which handles exist, so unknown ones are accepted like others.
func recoveredEdges(stored any, code string) constraint {
	return handleOf([]edge{ok("the right one", right, absent{}), ok("white space around", aroundIt, absent{})},
		func(name string, value any) edge { return edge{name, value, stored, code} })
}

var partnerEdges = func() constraint {
	c := handleOf([]edge{ok("another", right, right), ok("white space around", aroundIt, right)},
		func(name string, value any) edge { return bad(name, value, "unknown_id") })
	return constraint{c.rules, append(c.edges, bad("oneself", func(try *trial) string { return try.handle }, "bad_value"))}
}()

// idOf returns the constraint of an id of this kind. Its pattern is documented for clients; the service says more of an unknown id.
func idOf(kind, prefix string, c constraint) constraint {
	return constraint{append([]string{"format=" + kind + "-id", "pattern=^" + prefix + "_[0-9a-v]{26}$"}, c.rules...), c.edges}
}

// namedEdges is the constraint of an optional id of an existing record.
var namedEdges = constraint{
	[]string{"maxLength=60"},
	joined([]edge{ok("the right one", right, right), ok("white space around", aroundIt, right), ok("left out", absent{}, nil), ok("empty", "", nil)}, wrong(nil, 7, []any{"a"}), []edge{
		bad("of nothing", "pst_000", "unknown_id"), bad("capitals", changed(strings.ToUpper), "unknown_id"),
		bad("59", strings.Repeat("a", 59), "unknown_id"), bad("60", strings.Repeat("a", 60), "unknown_id"), bad("61", strings.Repeat("a", 61), "too_long"),
		bad("quote", "' OR 1=1 --", "unknown_id"), bad("NUL", "pst\x00", "forbidden_character"),
	}),
}

// theirOfferingEdges: a new agent's policy requires an entry of its menu.
var theirOfferingEdges = constraint{
	[]string{"maxLength=60"},
	joined([]edge{
		ok("the right one", right, absent{}), ok("white space around", aroundIt, absent{}),
		bad("left out", absent{}, "required"), bad("empty", "", "required"), bad("white space", " \u3000", "required"),
	}, wrong(nil, 7, []any{"off_000"}), []edge{
		bad("of nobody", "off_000", "unknown_id"), bad("59", strings.Repeat("a", 59), "unknown_id"), bad("60", strings.Repeat("a", 60), "unknown_id"),
		bad("one too many", strings.Repeat("a", 61), "too_long"), bad("quote", "' OR 1=1 --", "unknown_id"),
	}),
}

var afterEdges = constraint{[]string{"minLength=1", "maxLength=60"}, []edge{
	ok("an event", right, nil), ok("white space around", aroundIt, nil),
	bad("capitals", changed(strings.ToUpper), "bad_value"), bad("without its prefix", changed(func(id string) string { return id[4:] }), "bad_value"),
	bad("one character less", changed(func(id string) string { return id[:len(id)-1] }), "bad_value"), bad("one character more", changed(func(id string) string { return id + "0" }), "bad_value"),
	bad("empty", "", "too_short"), bad("one", "a", "bad_value"), bad("59", strings.Repeat("a", 59), "bad_value"), bad("60", strings.Repeat("a", 60), "bad_value"),
	bad("61", strings.Repeat("a", 61), "too_long"), bad("of a request", "req_06e8mlgv2g5hg0r8fvhlm0q1s4", "bad_value"), bad("a time", "2026-11-20T09:30:00Z", "bad_value"),
	bad("full width", strings.Repeat("\uff10", 30), "bad_value"), bad("NUL", "evt_\x00", "forbidden_character"),
}}

var menuEdges = constraint{[]string{"maxItems=3"}, joined([]edge{
	ok("none", menuOf(0), absent{}), ok("one", menuOf(1), absent{}), ok("two", menuOf(2), absent{}), ok("full", menuOf(3), absent{}),
	bad("one too many", menuOf(4), "too_many"),
}, wrong(nil, "a", 1, map[string]any{"0": "a"}))}

var watchEdges = constraint{[]string{"maxItems=5"}, joined([]edge{
	ok("none", watchesOf(0), nothing{}), ok("one", watchesOf(1), absent{}), ok("full", watchesOf(5), absent{}), bad("one too many", watchesOf(6), "too_many"),
}, wrong(nil, "a", 1, map[string]any{"0": "a"}))}

func watchesOf(n int) []any {
	watches := []any{}
	for i := range n {
		watches = append(watches, map[string]any{"q": fmt.Sprint("word ", i)})
	}
	return watches
}

func menuOf(n int) []any {
	menu := []any{}
	for i := range n {
		menu = append(menu, map[string]any{"title": fmt.Sprint("Entry ", i), "deliverable": "A table", "mode": "free"})
	}
	return menu
}

// queried keeps the edges that a query can write: texts. White space is trimmed there too.
func queried(c constraint) constraint {
	kept := constraint{rules: c.rules}
	for _, e := range c.edges {
		if _, isText := e.value.(string); isText {
			kept.edges = append(kept.edges, e)
		}
	}
	return kept
}

func queryTextOf(least, most int) constraint { return queried(textOf(least, most)) }

var queryBooleanEdges = constraint{nil, []edge{
	ok("true", "true", nil), ok("false", "false", nil),
	bad("T", "T", "wrong_type"), bad("t", "t", "wrong_type"), bad("1", "1", "wrong_type"), bad("0", "0", "wrong_type"), bad("TRUE", "TRUE", "wrong_type"),
	bad("True", "True", "wrong_type"), bad("yes", "yes", "wrong_type"), bad("empty", "", "wrong_type"), bad("space", " true", "wrong_type"), bad("null", "null", "wrong_type"),
}}

func queryIntegerOf(least, most int) constraint {
	text := func(n int) string { return fmt.Sprint(n) }
	c := constraint{rules: []string{fmt.Sprintf("minimum=%d", least), fmt.Sprintf("maximum=%d", most)}, edges: []edge{
		ok("least", text(least), nil), ok("one more", text(least+1), nil), ok("one less", text(most-1), nil), ok("most", text(most), nil),
		bad("one too few", text(least-1), "out_of_range"), bad("one too many", text(most+1), "out_of_range"),
		bad("a billion", "1000000000", "wrong_type"), bad("nine digits", "999999999", "out_of_range"), bad("negative", "-1", "out_of_range"),
	}}
	for _, s := range []string{"", "007", "01", "+1", "1e1", "1.0", "0x1", "1_0", " 1", "1 ", "١", "１", "NaN", "null", "true", "-0", "--1", "99999999999999999999", "\x00"} {
		c.edges = append(c.edges, bad("the text "+fmt.Sprintf("%q", s), s, "wrong_type"))
	}
	return c
}

var cursorEdges = cursorEdgesTo(100)

// cursorEdgesTo returns the constraint of a cursor with a maximum length. No text of that length
// is a cursor, so the limit shows in the code of the error.
func cursorEdgesTo(most int) constraint {
	return constraint{[]string{"minLength=1", fmt.Sprint("maxLength=", most), "format=cursor", "pattern=^[A-Za-z0-9_-]+$"}, []edge{
		bad("empty", "", "too_short"), bad("one", "a", "bad_value"), bad("one less", strings.Repeat("a", most-1), "bad_value"), bad("most", strings.Repeat("a", most), "bad_value"),
		bad("one more", strings.Repeat("a", most+1), "too_long"), bad("Chinese", strings.Repeat("中", most), "bad_value"), bad("Chinese, one more", strings.Repeat("中", most+1), "too_long"),
		bad("padded", "MC41==", "bad_value"), bad("tier 4", "NC41", "bad_value"), bad("not below 1", "MC4w", "bad_value"), bad("zeros first", "MC4wNQ", "bad_value"),
	}}
}

var confirmEdges = constraint{[]string{"minLength=1", "maxLength=32"}, []edge{
	bad("empty", "", "too_short"), bad("one", "a", "bad_value"), bad("31", strings.Repeat("a", 31), "bad_value"), bad("32", strings.Repeat("a", 32), "bad_value"),
	bad("33", strings.Repeat("a", 33), "too_long"), bad("another's", "neighbour", "bad_value"),
}}

var sinceEdges = constraint{[]string{"minLength=1", "maxLength=40", "format=date-time"}, []edge{
	ok("seconds", "2026-11-20T09:30:00Z", nil), ok("milliseconds", "2026-11-20T09:30:00.000Z", nil), ok("zone", "2026-11-20T09:30:00+08:00", nil),
	ok("39", "2026-11-20T09:30:00."+strings.Repeat("0", 18)+"Z", nil), ok("40", "2026-11-20T09:30:00."+strings.Repeat("0", 19)+"Z", nil),
	ok("white space around", " 2026-11-20T09:30:00Z ", nil), ok("year 0", "0000-01-01T00:00:00Z", nil), ok("year 9999", "9999-12-31T23:59:59Z", nil),
	bad("41", "2026-11-20T09:30:00."+strings.Repeat("0", 20)+"Z", "too_long"), bad("empty", "", "too_short"),
	bad("a date", "2026-11-20", "bad_format"), bad("no zone", "2026-11-20T09:30:00", "bad_format"), bad("no such day", "2026-02-30T00:00:00Z", "bad_format"),
	bad("a number", "1763631000", "bad_format"), bad("leap hour", "2026-11-20T24:00:00Z", "bad_format"), bad("words", "yesterday", "bad_format"),
}}
