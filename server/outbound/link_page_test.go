package outbound

import (
	"net/url"
	"strings"
	"testing"

	"callbook/testdata/testkit"
)

// pages say what a page at https://site.example.net/about/me proves of wanted.
var pages = []struct{ name, html, proof string }{
	{"link", `<a rel="me" href="https://callbook.example.org/agents/foo">me</a>`, "rel_me"},
	{"link in the head", `<head><link rel="me" href="https://callbook.example.org/agents/foo"/></head>`, "rel_me"},
	{"link among other words", `<a class=x rel="noopener ME nofollow" href=https://callbook.example.org/agents/foo>`, "rel_me"},
	{"words parted by a newline", "<a rel='nofollow\nme' href='https://callbook.example.org/agents/foo'>", "rel_me"},
	{"upper case scheme, host and tag", `<A REL="me" HREF="HTTPS://CallBook.Example.ORG/agents/foo">`, "rel_me"},
	{"default port, slash, fragment", `<a rel=me href="https://callbook.example.org:443/agents/foo/#card">`, "rel_me"},
	{"the page in Chinese", `<a rel=me href="https://callbook.example.org/agents/foo?lang=zh">`, "rel_me"},
	{"spaces around, escaped", `<a rel=me href=" https:&#47;&#x2F;callbook.example.org/agents/foo ">`, "rel_me"},
	{"protocol-relative", `<a rel=me href="//callbook.example.org/agents/foo">`, "rel_me"},
	{"dot segments", `<a rel=me href="https://callbook.example.org/x/../agents/./foo">`, "rel_me"},
	{"by way of the base", `<base href="https://callbook.example.org/agents/"><a rel=me href="foo">`, "rel_me"},
	{"after a mention", `https://callbook.example.org/agents/foo <a rel=me href="https://callbook.example.org/agents/foo">`, "rel_me"},

	{"text", `<p>I am https://callbook.example.org/agents/foo.</p>`, "mention"},
	{"text in a link", `<a href="/x">https://callbook.example.org/agents/foo</a>`, "mention"},
	{"link without rel", `<a href="https://callbook.example.org/agents/foo">me</a>`, "mention"},
	{"description", `<meta name=description content="Callbook: https://callbook.example.org/agents/foo, and more">`, "mention"},
	{"title", `<title>https://callbook.example.org/agents/foo</title>`, "mention"},
	{"escaped text", `https:&#x2f;&#x2f;callbook.example.org&sol;agents&sol;foo`, "mention"},
	{"no markup", `https://callbook.example.org/agents/foo`, "mention"},
	{"slash at the end", `https://callbook.example.org/agents/foo/ `, "mention"},
	{"another language", `https://callbook.example.org/agents/foo?lang=zh`, "mention"},
	{"Chinese around", `我的地址：https://callbook.example.org/agents/foo，欢迎`, "mention"},
	{"Chinese without a space", `见https://callbook.example.org/agents/foo见`, "mention"},
	{"markdown", `[card](https://callbook.example.org/agents/foo)`, "mention"},
	{"list without spaces", `<li>https://callbook.example.org/agents/foo</li><li>bar</li>`, "mention"},
	{"line without spaces", `https://callbook.example.org/agents/foo<br>bar`, "mention"},
	{"line end without spaces", `<p>https://callbook.example.org/agents/foo</p>bar`, "mention"},
	{"after another address", `https://other.example.net，https://callbook.example.org/agents/foo`, "mention"},
	{"second of two", `https://callbook.example.org/agents/foobar https://callbook.example.org/agents/foo`, "mention"},
	{"invalid UTF-8 and NUL", "\xff\x00https://callbook.example.org/agents/foo\xfe", "mention"},

	{"empty", ``, ""},
	{"handle is a prefix, text", `https://callbook.example.org/agents/foobar`, ""},
	{"handle is a prefix, hyphen", `https://callbook.example.org/agents/foo-2`, ""},
	{"handle is a prefix, digit", `https://callbook.example.org/agents/foo2`, ""},
	{"handle is a prefix, underscore", `https://callbook.example.org/agents/foo_2`, ""},
	{"path goes on", `https://callbook.example.org/agents/foo//bar`, ""},
	{"handle is a prefix, escape", `https://callbook.example.org/agents/foo%2D2`, ""},
	{"handle is a prefix, upper case", `https://callbook.example.org/agents/fooBAR`, ""},
	{"handle is a prefix, attribute", `<a href="https://callbook.example.org/agents/foobar">`, ""},
	{"handle is a prefix, link", `<a rel=me href="https://callbook.example.org/agents/foo-bar">`, ""},
	{"page below the handle's", `https://callbook.example.org/agents/foo/feed`, ""},
	{"link below the handle's", `<a rel=me href="https://callbook.example.org/agents/foo/feed">`, ""},
	{"another rel", `<a rel="nofollow me-too" href="//callbook.example.org/agents/foo">`, ""},
	{"rel within a word", `<a rel="home,me" href="//callbook.example.org/agents/foo">`, ""},
	{"second rel", `<a rel="nofollow" rel="me" href="//callbook.example.org/agents/foo">`, ""},
	{"second href", `<a rel="me" href="//evil.example.net/" href="//callbook.example.org/agents/foo">`, ""},
	{"rel me to another site", `<a rel="me" href="https://evil.example.net/agents/foo">`, ""},
	{"rel me of another element", `<form rel="me" action="//callbook.example.org/agents/foo">`, ""},
	{"rel me of another element with href", `<area rel="me" href="//callbook.example.org/agents/foo">`, ""},
	{"rel and href apart", `<a rel="me"></a><a href="//callbook.example.org/agents/foo"></a>`, ""},
	{"rel me in text", `&lt;a rel="me" href="//callbook.example.org/agents/foo"&gt;`, ""},
	{"rel me in a text field", `<textarea><a rel="me" href="//callbook.example.org/agents/foo"></textarea>`, ""},
	{"other scheme", `<a rel="me" href="http://callbook.example.org/agents/foo">`, ""},
	{"other port", `<a rel="me" href="https://callbook.example.org:8443/agents/foo">`, ""},
	{"other path case", `<a rel="me" href="https://callbook.example.org/agents/FOO">`, ""},
	{"other query", `<a rel="me" href="//callbook.example.org/agents/foo?as=bar">`, ""},
	{"two languages", `<a rel="me" href="//callbook.example.org/agents/foo?lang=zh&lang=en">`, ""},
	{"other host that ends alike", `<a rel="me" href="https://evilcallbook.example.org/agents/foo">`, ""},
	{"other host that begins alike", `<a rel="me" href="https://callbook.example.org.evil.net/agents/foo">`, ""},
	{"user info", `<a rel="me" href="https://callbook.example.org@evil.example.net/agents/foo">`, ""},
	{"own user info", `<a rel="me" href="https://evil@callbook.example.org/agents/foo">`, ""},
	{"backslashes", `<a rel="me" href="https:\\callbook.example.org\agents\foo">`, ""},
	{"opaque", `<a rel="me" href="https:callbook.example.org/agents/foo">`, ""},
	{"bad escape", `<a rel="me" href="//callbook.example.org/agents/foo%zz">`, ""},
	{"escaped slash", `<a rel="me" href="//callbook.example.org/agents%2Ffoo">`, ""},
	{"base leads elsewhere", `<base href="https://evil.example.net/"><a rel=me href="/agents/foo">`, ""},
	{"second base", `<base href="/a/"><base href="https://callbook.example.org/"><a rel=me href="/agents/foo">`, ""},
	{"base is no address", `<base href="https://[callbook"><a rel=me href="/agents/foo">`, ""},
	{"base with user info", `<base href="https://me@callbook.example.org/"><a rel=me href="/agents/foo">`, ""},
	{"no base", `<a rel=me href="/agents/foo">`, ""},
	{"comment", `<!-- <a rel="me" href="https://callbook.example.org/agents/foo"> -->`, "mention"},
	{"script", `<script>let me = "https://callbook.example.org/agents/foo"</script>`, "mention"},
	{"query of another address", `<a href="https://evil.example.net/?u=https://callbook.example.org/agents/foo">`, ""},
	{"query of a relative address", `<a href="/go?to=https://callbook.example.org/agents/foo">`, ""},
	{"path of another address", `https://web.example.net/2026/https://callbook.example.org/agents/foo`, ""},
	{"far into another address", `https://evil.example.net/` + strings.Repeat(";", 3*maxAddressBytes) + `https://callbook.example.org/agents/foo`, ""},
	{"fragment of another address", `https://evil.example.net/#:https://callbook.example.org/agents/foo`, ""},
	{"end of another scheme", `xhttps://callbook.example.org/agents/foo`, ""},
	{"split by a tag", `https://callbook.example.org/<b>agents</b>/foo`, ""},
	{"split by a space", `https://callbook.example.org/agents/ foo`, ""},
	{"split over attributes", `<a title="https://callbook.example.org/" alt="agents/foo">`, ""},
	{"escaped twice", `https:&amp;#x2f;&amp;#x2f;callbook.example.org/agents/foo`, ""},
	{"percent-encoded", `https%3A%2F%2Fcallbook.example.org%2Fagents%2Ffoo`, ""},
	{"without a scheme", `callbook.example.org/agents/foo`, ""},
	{"other scheme in text", `http://callbook.example.org/agents/foo`, ""},
	{"attribute without an end", `<a rel="me" href="https://callbook.example.org/agents/foo>me</a>`, "mention"},
}

func TestPage_Proofs(t *testing.T) {
	want := testkit.Must(newTarget(wanted))(t)
	at := mustParse(t, "https://site.example.net/about/me")
	for _, test := range pages {
		if got := want.proofIn([]byte(test.html), at, true); got != test.proof {
			t.Errorf("%s: %q, want %q", test.name, got, test.proof)
		}
	}
}

func TestPage_PlainText(t *testing.T) {
	want := testkit.Must(newTarget(wanted + "/"))(t)
	for text, proof := range map[string]string{
		"# Me\n\nhttps://callbook.example.org/agents/foo\n":                     "mention",
		"<https://callbook.example.org/agents/foo>":                             "mention",
		"<!-- https://callbook.example.org/agents/foo -->":                      "mention",
		"https://callbook.example.org/agents/foo":                               "mention",
		`<a rel="me" href="https://callbook.example.org/agents/foo">`:           "mention",
		`{"me":"https:\/\/callbook.example.org\/agents\/foo"}`:                  "",
		"https://callbook.example.org/agents/foobar":                            "",
		"https://evil.example.net/?u=https://callbook.example.org/agents/foo\n": "",
	} {
		if got := want.proofIn([]byte(text), mustParse(t, "https://site.example.net/"), false); got != proof {
			t.Errorf("%q: %q, want %q", text, got, proof)
		}
	}
}

// A page of the largest size that makes the search look back as far as it can, at
// every place, is read in a moment: the test binary's own limit would end it.
func TestPage_HostileInputIsFast(t *testing.T) {
	want := testkit.Must(newTarget("http://a.bc/d"))(t)
	page := strings.Repeat("http://a.bc/dd", maxBodyBytes/14)
	if proof := want.proofIn([]byte(page), mustParse(t, "https://site.example.net/"), true); proof != "" {
		t.Errorf("%q", proof)
	}
}

func TestPage_InvalidTargetIsNeverFound(t *testing.T) {
	for _, wanted := range []string{"", "/", "foo", "https://", "https://user@callbook.example.org/agents/foo", "https://[callbook/"} {
		if got, err := newTarget(wanted); err != notFound {
			t.Errorf("%q: %+v, %v", wanted, got, err)
		}
	}
}

// A broken escape must not hide what the others decode to.
// It holds promise 13 of SECURITY.md.
func TestLinkPage_AddressContainsTarget(t *testing.T) {
	want := testkit.Must(newTarget(wanted))(t)
	for address, reflected := range map[string]bool{
		"https://search.example.net/?q=https://callbook.example.org/agents/foo":                             true,
		"https://search.example.net/?q=https%3A%2F%2Fcallbook.example.org%2Fagents%2Ffoo":                   true,
		"https://search.example.net/?q=https%253A%252F%252FCallBook.example.org%252Fagents/foo":             true,
		"https://search.example.net/?q=callbook.example.org/agents/foo+x":                                   true,
		"https://archive.example.net/web/2026/https://callbook.example.org/agents/foo":                      true,
		"https://search.example.net/?q=https%253A%252F%252Fcallbook.example.org%252Fagents%252Ffoo&x=%25zz": true,
		"https://search.example.net/?x=%zz&q=https%3A%2F%2Fcallbook.example.org%2Fagents%2Ffoo":             true,
		"https://search.example.net/?q=callbook.example.org":                                                false,
		"https://site.example.net/agents/foo":                                                               false,
		"https://site.example.net/?100%":                                                                    false,
	} {
		if got := want.reflectedBy(mustParse(t, address)); got != reflected {
			t.Errorf("%s: %v", address, got)
		}
	}
}

func TestKindOf(t *testing.T) {
	for host, kind := range map[string]string{
		"github.com": "github", "GitHub.com": "github", "www.github.com": "github", "gist.github.com": "github",
		"foo.github.io": "website", "raw.githubusercontent.com": "website", "github.com.evil.net": "website", "notgithub.com": "website",
		"gitlab.com": "gitlab", "gitlab.example.com": "website", "codeberg.org": "codeberg", "codeberg.page": "website",
		"huggingface.co": "huggingface", "hf.co": "huggingface", "foo.hf.space": "website",
		"mastodon.social": "mastodon", "mastodon.online": "mastodon", "mastodon.example.net": "mastodon", "mstdn.social": "mastodon",
		"fosstodon.org": "mastodon", "hachyderm.io": "mastodon", "notmastodon.social": "website", "mastodonts.example.net": "website",
		"xiaohongshu.com": "xiaohongshu", "www.xiaohongshu.com": "xiaohongshu", "xhslink.com": "xiaohongshu",
		"example.com": "website", "": "website", "127.0.0.1": "website",
	} {
		if got := LinkKind(host); got != kind {
			t.Errorf("%s: %s, want %s", host, got, kind)
		}
	}
}

func mustParse(t testing.TB, address string) *url.URL {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func FuzzPage(f *testing.F) {
	for _, page := range pages {
		f.Add(page.html)
	}
	want, err := newTarget(wanted)
	if err != nil {
		f.Fatal(err)
	}
	at := mustParse(f, "https://site.example.net/about/me")
	f.Fuzz(func(t *testing.T, page string) {
		if got := want.proofIn([]byte(page), at, true); got != "" && got != proofRelMe && got != proofMention {
			t.Errorf("%q", got)
		}
	})
}
