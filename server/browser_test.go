package server

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	cdpnetwork "github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"callbook/testdata/proof"
	"callbook/testdata/testkit"
)

// The pages for people in a real browser: Chromium, with a font for Chinese.
//
// AXE_CORE names axe.min.js of the npm package axe-core; with it, the pages are compared with the Web Content
// Accessibility Guidelines. SCREENSHOTS names a folder that gets a picture of every page in every variant, for a person
// to look at.

const (
	narrow = 375
	wide   = 1280
	// reflow is the width at which no page may scroll sideways (WCAG 2.2, 1.4.10).
	reflow = 320
	// heaviest is how many bytes a page may have with all that it loads.
	heaviest = 40_000
	// mostRequests are those for a page, the stylesheet and the mark.
	mostRequests = 3
	// slowest is the maximum time until a page is first painted, on a machine that does much else.
	slowest = 3 * time.Second
)

func TestPages_WorkInABrowser(t *testing.T) {
	t.Parallel()
	proof.OneByOne(t)
	b := startBrowser(t)
	t.Run("shown", b.eachPage)
	t.Run("lists are dense", b.listsAreDense)
	t.Run("keyboard", func(t *testing.T) {
		for name, by := range map[string]func(b *tab, s *site){
			"the order of the head": headInOrder, "past the head": skipsTheHead, "every stop is seen": b.everyStopIsSeen, "a claim is confirmed": confirmsByKeyboard,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				by(b.acquireTab(t), b.site)
			})
		}
	})
}

// browser is the one browser of all these tests, with the sites that it reads.
type browser struct {
	site  *site // with the demo
	pages map[string]personPage
	tabs  chan *tab
}

type personPage struct {
	url    string
	status int64
}

func (p personPage) in(lang string) string {
	if strings.Contains(p.url, "?") {
		return p.url + "&lang=" + lang
	}
	return p.url + "?lang=" + lang
}

func startBrowser(t *testing.T) *browser {
	path := browserPath()
	if path == "" {
		t.Skip("needs a browser: apt-get install chromium fonts-noto-cjk")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.Flag("no-proxy-server", true))
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	first, _ := chromedp.NewContext(ctx)
	t.Cleanup(func() {
		if err := chromedp.Cancel(first); err != nil {
			t.Errorf("close the browser: %v", err)
		}
	})
	b := &browser{tabs: make(chan *tab, 2)}
	b.tabs <- newTab(t, first)
	second, cancel := chromedp.NewContext(first)
	t.Cleanup(cancel)
	b.tabs <- newTab(t, second)
	b.findPages(t)
	return b
}

func browserPath() string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// findPages makes two sites, one with the demo and texts of every greatest length, and one with nothing.
func (b *browser) findPages(t *testing.T) {
	s, empty := newDevSite(t, true), newDevSite(t, false)
	call := s.fillEveryField()
	s.agent("poor-card")
	s.send("POST", "/api/me/owner-claim", s.verified("person-wanted"), map[string]any{"owner_email": "wanted@example.org"}).status(202)
	s.mail("wanted@example.org")
	operator := s.operatorPage()
	operatorURL := operator.base + "/operator/" + operator.token
	s.send("POST", "/api/agents/"+full+"/report", "", map[string]any{"reason": long(300)}).status(202)
	operator.press("", "block-word", "subject", long(64)).status(200)
	operator.press("", "invite", "uses", "100000", "days", "30").status(200)
	ok := func(url string) personPage { return personPage{url, 200} }
	b.site = s
	b.pages = map[string]personPage{
		"home": ok(s.url + "/"), "home, empty": ok(empty.url + "/"),
		"agents": ok(s.url + "/agents"), "agents, empty": ok(empty.url + "/agents"),
		"agents, none found": ok(s.url + "/agents?q=xyzzy"), "agents, some words": ok(s.url + "/agents?q=go+review&min_level=1"), "calls, searched": ok(s.url + "/calls?q=tide+map"),
		"card": ok(s.url + "/agents/twinscript"), "card, poor": ok(s.url + "/agents/poor-card"), "card, full": ok(s.url + "/agents/" + full),
		"calls": ok(s.url + "/calls"), "calls, empty": ok(empty.url + "/calls"), "call": ok(s.url + "/calls/" + s.postWithReplies()), "call, full": ok(s.url + "/calls/" + call),
		"dev":      ok(s.url + "/dev"),
		"operator": ok(operatorURL), "operator, agents": ok(operatorURL + "?show=agents&choose=all&q=" + full), "operator, lists": ok(operatorURL + "?show=lists"),
		"operator, expired": {operator.base + "/operator/gone", 404},
		"guide":             ok(s.url + "/guide"), "about": ok(s.url + "/about"), "reference": ok(s.url + "/docs/reference"), "operation": ok(s.url + "/docs/reference/updateMe"),
		"manual": ok(s.url + "/docs"), "manual, settings": ok(s.url + "/docs/configuration"),
		"owner, asked": ok(s.openOwnerPage("person-wanted")), "owner, claimed": ok(s.openOwnerPage("signpost-aid")), "owner, full": ok(s.openOwnerPage(full)),
		"not found": {s.url + "/agents/nobody-here", 404}, "bad query": {s.url + "/agents?min_level=9", 400},
	}
}

// full is the handle of an agent whose texts all have their maximum length, in one word.
var full = strings.Repeat("w", 32)

func long(n int) string { return strings.Repeat("W", n) }

func longItems(n, length int) (items []string) {
	for i := range n {
		items = append(items, fmt.Sprintf("%02d%s", i, long(length-2)))
	}
	return items
}

// fillEveryField registers that agent with a menu, a link, a call, a collaboration and a contact
// request that waits for its owner. It returns the id of the call.
func (s *site) fillEveryField() (call string) {
	s.Helper()
	key := s.claimed(full, "full@example.org", "name", long(60), "owner", long(60), "tagline", long(80), "model", long(60),
		"mailbox", long(64)+"@"+long(60)+".example.org", "contact_public", true,
		"description_en", long(600), "description_zh", strings.Repeat("，福", 300), "capabilities", longItems(12, 60),
		"languages", []string{"en", "zh-Hans-CN", "zh-Hant-TW", "de-CH-1996", "sl-rozaj-biske-1994", "ja", "ko", "ar"},
		"homepage", "https://example.org/"+long(1000))
	entry := map[string]any{
		"title": long(40), "deliverable": long(120), "mode": "offsite_paid", "for_whom": long(80), "not_doing": long(120), "turnaround_days": 90,
		"languages": []string{"en", "zh-Hans-CN", "zh-Hant-TW", "sl-rozaj-biske-1994"}, "tags": longItems(5, 60),
	}
	menu := s.send("PUT", "/api/me/offerings", key, map[string]any{"offerings": []any{entry, entry, entry}}).status(200)
	s.link(key, s.url+"/"+long(1000)).status(200)
	sender := s.claimed("sender", "sender@example.org", "name", long(60))
	s.send("POST", "/api/collabs/"+s.collab(sender, full, "summary", long(300))+"/confirm", key, nil).status(200)
	s.send("PATCH", "/api/me", key, map[string]any{"contact_policy": map[string]any{"require_owner_receipt": true, "note": long(200)}}).status(200)
	request := s.sendRequest(sender, full, "offering_id", menu.text("offerings", 0, "id"),
		"purpose", long(200), "deliverable", long(120), "context", long(500), "deadline", "2099-12-31")
	s.send("POST", "/api/requests/"+request+"/accept", key, nil).status(200)
	call = s.post(key, long(120), "body", long(4000), "deliverable", long(300), "constraints", long(300), "deadline", "2099-12-31", "tags", longItems(6, 60))
	s.send("POST", "/api/posts/"+call+"/replies", sender, map[string]any{"body": long(2000)}).status(201)
	return call
}

func (s *site) postWithReplies() string {
	s.Helper()
	var list struct {
		Posts []struct {
			ID         string `json:"id"`
			ReplyCount int    `json:"reply_count"`
		} `json:"posts"`
	}
	s.send("GET", "/api/posts?limit=100&author=wrensong", "", nil).status(200).into(&list)
	for _, p := range list.Posts {
		if p.ReplyCount > 1 {
			return p.ID
		}
	}
	s.Fatal("the demo has no call with replies")
	return ""
}

func (s *site) openOwnerPage(handle string) string {
	s.Helper()
	for _, m := range s.outgoing.Messages() {
		if m.Link != nil && strings.Contains(m.Text, handle) {
			_, token, _ := strings.Cut(*m.Link, "/owner/")
			return s.url + "/owner/" + token
		}
	}
	s.Fatalf("no mail to the owner of %s", handle)
	return ""
}

// eachPage reads every page, as many at once as there are tabs.
func (b *browser) eachPage(t *testing.T) {
	for name, p := range b.pages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tab := b.acquireTab(t)
			tab.checkVariants(p)
		})
	}
}

// listsAreDense checks how many agents a reader sees before scrolling.
func (b *browser) listsAreDense(t *testing.T) {
	tab, demo := b.acquireTab(t), newDevSite(t, true) // the other site has names of the maximum length
	for width, want := range map[int64]int{wide: 8, 390: 4} {
		height := map[int64]int64{wide: 800, 390: 844}[width]
		runCommand(tab, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width != wide})
		tab.open(demo.url+"/agents?lang=en", 200)
		if got := evaluate[int](tab, `[...document.querySelectorAll(".entry h3")].filter(e => e.getBoundingClientRect().bottom < innerHeight).length`); got < want {
			t.Errorf("at %d: %d agents are seen, want %d", width, got, want)
		}
	}
}

// acquireTab returns a free tab for a test, which has a minute for all that it does there.
func (b *browser) acquireTab(t *testing.T) *tab {
	tab, cancel := <-b.tabs, context.CancelFunc(nil)
	tab.T = t
	tab.ctx, cancel = context.WithTimeout(tab.life, time.Minute)
	t.Cleanup(func() {
		cancel()
		b.tabs <- tab
	})
	return tab
}

// tab is a tab of the browser. It records events.
type tab struct {
	*testing.T // that looks now
	ctx        context.Context
	life       context.Context // of the tab itself

	mu       sync.Mutex
	url      string // of the page
	origin   string
	bytes    float64
	requests int
	problems []string
}

func newTab(t *testing.T, ctx context.Context) *tab {
	tab := &tab{T: t, ctx: ctx, life: ctx}
	testkit.NoError(t, chromedp.Listen(ctx, tab.recordEvent))
	runCommand(tab, cdpnetwork.SetCacheDisabled, cdpnetwork.SetCacheDisabledParams{CacheDisabled: true})
	runCommand(tab, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	runCommand(tab, audits.Enable, cdp.Empty{})
	return tab
}

// recordEvent records messages of the browser about a page as problems, except the status of an error page.
func (b *tab) recordEvent(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	problem := func(format string, args ...any) { b.problems = append(b.problems, fmt.Sprintf(format, args...)) }
	switch e := event.(type) {
	case *cdpnetwork.EventRequestWillBeSent:
		b.requests++
		if !strings.HasPrefix(e.Request.URL, b.origin) {
			problem("asks another site: %s", e.Request.URL)
		}
	case *cdpnetwork.EventResponseReceived:
		if e.Response.Status >= 400 && e.Type != cdpnetwork.ResourceTypeDocument {
			problem("%s: status %d", e.Response.URL, e.Response.Status)
		}
	case *cdpnetwork.EventLoadingFailed:
		problem("a request failed: %s %s", e.ErrorText, e.BlockedReason)
	case *cdpnetwork.EventLoadingFinished:
		b.bytes += e.EncodedDataLength
	case *log.EventEntryAdded:
		if e.Entry.URL != b.url || e.Entry.Source != log.EntrySourceNetwork {
			problem("%s: %s", e.Entry.Source, e.Entry.Text)
		}
	case *runtime.EventConsoleAPICalled:
		problem("console: %v", e.Args)
	case *runtime.EventExceptionThrown:
		problem("exception: %s", e.ExceptionDetails.Text)
	case *audits.EventIssueAdded:
		problem("issue: %s", e.Issue.Code)
	}
}

func runCommand[P, R any](b *tab, command cdp.Command[P, R], params P) R {
	b.Helper()
	response, err := chromedp.Call(b.ctx, command, params)
	if err != nil {
		b.Fatalf("%s: %v", command.Method, err)
	}
	return response
}

// evaluate runs a script in the page, which its policy does not hinder.
func evaluate[T any](b *tab, script string) T {
	b.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
	if err != nil {
		b.Fatalf("%.60s: %v", script, err)
	}
	return value
}

// emulate sets the colour scheme and the width of the tab.
func (b *tab) emulate(scheme string, width int64) {
	b.Helper()
	runCommand(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: width, Height: 800, DeviceScaleFactor: 1, Mobile: width <= narrow,
	})
	runCommand(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
}

func (b *tab) open(address string, status int64) {
	b.Helper()
	u := testkit.Must(url.Parse(address))(b)
	b.mu.Lock()
	b.url, b.origin, b.bytes, b.requests, b.problems = address, u.Scheme+"://"+u.Host+"/", 0, 0, nil
	b.mu.Unlock()
	response, err := chromedp.Run(b.ctx, chromedp.NavigateResponse(address))
	if err != nil {
		b.Fatalf("open %s: %v", address, err)
	}
	if response.Status != status {
		b.Fatalf("%s: status %d", address, response.Status)
	}
}

type measures struct {
	Width int64    // of the content
	Cut   []string // what is cut off
	Shift float64  // cumulative layout shift
	Moved []string // what shifted
	Paint float64  // milliseconds until the first content was painted
}

// A quotation's own margin may stick out of its place by a few pixels.
const measure = `new Promise(done => new PerformanceObserver(paints => paints.getEntriesByName("first-contentful-paint").length && done()).observe({type: "paint", buffered: true}))
	.then(() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => {
	const shifts = new PerformanceObserver(() => {});
	shifts.observe({type: "layout-shift", buffered: true});
	const moves = shifts.takeRecords();
	done({
		width: document.documentElement.scrollWidth,
		cut: [...document.querySelectorAll("body *:not(input, select, option)")]
			.filter(e => e.clientWidth > 0 && e.scrollWidth > e.clientWidth + 5 && getComputedStyle(e).overflowX !== "visible")
			.map(e => e.scrollWidth - e.clientWidth + " pixels of " + e.outerHTML.slice(0, 120)),
		shift: moves.reduce((sum, entry) => sum + entry.value, 0),
		paint: performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? -1,
		moved: moves.flatMap(entry => entry.sources).map(({node, previousRect: from, currentRect: to}) =>
			[from.x, from.y, from.width, from.height] + " to " + [to.x, to.y, to.width, to.height] + " " + (node?.outerHTML ?? node?.data ?? "").slice(0, 120)),
	});
}))))`

// checkVariants loads a page in English for a wide window and in Chinese for a narrow one, and then displays it in the
// other widths and colours. axe-core is slow, so it checks each language, colour scheme and width once instead of all their
// combinations.
func (b *tab) checkVariants(p personPage) {
	for lang, width := range map[string]int64{"en": wide, "zh": narrow} {
		b.emulate("light", width)
		b.open(p.in(lang), p.status)
		if m := b.checkWidth(lang, "light", width); m.Shift > 0 {
			b.Errorf("%s at %d: the layout shifts by %f: %q", lang, width, m.Shift, m.Moved)
		} else if m.Paint < 0 || m.Paint > float64(slowest.Milliseconds()) {
			b.Errorf("%s at %d: first painted after %.0f ms", lang, width, m.Paint)
		} else {
			b.Logf("%s at %d: first painted after %.0f ms", lang, width, m.Paint)
		}
		b.checkEvents()
		if lang == "en" {
			b.checkAccessibility("en-light-wide")
		} else {
			b.checkFonts()
		}
		b.emulate("dark", wide+narrow-width)
		b.checkWidth(lang, "dark", wide+narrow-width)
		b.emulate("dark", reflow)
		b.checkWidth(lang, "dark", reflow)
		if lang == "zh" {
			b.checkAccessibility("zh-dark-reflow")
		}
	}
}

// checkWidth reports content that is too wide for the page.
func (b *tab) checkWidth(lang, scheme string, width int64) measures {
	b.Helper()
	m := evaluate[measures](b, measure)
	if m.Width > width {
		b.Errorf("%s, %s at %d: scrolls sideways: %d pixels", lang, scheme, width, m.Width)
	}
	if len(m.Cut) > 0 {
		b.Errorf("%s, %s at %d: cut off: %q", lang, scheme, width, m.Cut)
	}
	if folder := os.Getenv("SCREENSHOTS"); folder != "" && width != reflow {
		b.picture(filepath.Join(folder, fmt.Sprintf("%s-%s-%s-%d.png", strings.ReplaceAll(filepath.Base(b.Name()), ",_", "-"), lang, scheme, width)))
	}
	return m
}

// checkEvents reports the problems that the browser recorded, and a page that is too large.
func (b *tab) checkEvents() {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.problems) > 0 {
		b.Errorf("%s: %q", b.url, b.problems)
	}
	if b.bytes > heaviest || b.bytes == 0 {
		b.Errorf("%s: %.0f bytes", b.url, b.bytes)
	}
	if b.requests > mostRequests {
		b.Errorf("%s: %d requests", b.url, b.requests)
	}
	b.Logf("%.0f bytes", b.bytes)
}

func (b *tab) picture(path string) {
	b.Helper()
	png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err == nil {
		err = os.WriteFile(path, png, 0o644)
	}
	testkit.NoError(b, err)
}

// checkFonts reports whether there is a font for the Chinese of the page. Without one all other measures mean little.
func (b *tab) checkFonts() {
	b.Helper()
	const missing = `(() => {
		const canvas = new OffscreenCanvas(24, 24).getContext("2d", {willReadFrequently: true});
		canvas.font = "16px " + getComputedStyle(document.body).fontFamily;
		const draw = text => {
			canvas.clearRect(0, 0, 24, 24);
			canvas.fillText(text, 4, 18);
			return new Uint32Array(canvas.getImageData(0, 0, 24, 24).data.buffer);
		};
		const box = draw("\u{10FFFD}"), heads = document.querySelector("header").innerText;
		return [...heads].filter(c => /\p{Script=Han}/u.test(c) && draw(c).every((pixel, i) => pixel === box[i])).join("");
	})()`
	equal(b, "", evaluate[string](b, missing), "characters without a font")
}

// axe is the script of axe-core, which finds accessibility problems; empty without AXE_CORE.
var axe = sync.OnceValue(func() string {
	path := os.Getenv("AXE_CORE")
	if path == "" {
		return ""
	}
	script, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	return string(script)
})

const runAxe = `axe.run(document, {
	runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22a", "wcag22aa", "best-practice"],
	rules: {"target-size": {enabled: true}},
	resultTypes: ["violations"],
}).then(result => result.violations.map(v => v.id + ": " + v.help + ": " + v.nodes.map(n => n.target + " " + n.failureSummary).slice(0, 5).join("; ")))`

// checkAccessibility checks the open page against WCAG 2.2, levels A and AA, and best practices.
func (b *tab) checkAccessibility(variant string) {
	b.Run("axe-core "+variant, func(t *testing.T) {
		if axe() == "" {
			t.Skip("needs axe-core: set AXE_CORE to the path of axe.min.js")
		}
		evaluate[chromedp.Void](b, axe())
		for _, violation := range evaluate[[]string](b, runAxe) {
			t.Error(violation)
		}
	})
}

// focusStop is the element that has the keyboard's focus.
type focusStop struct {
	Name   string // id, label or text; empty for nowhere
	Middle float64
	InMain bool
	Seen   bool // with a ring around it, in the window
}

func (b *tab) focus() focusStop {
	b.Helper()
	return evaluate[focusStop](b, `(() => {
		const e = document.activeElement, style = getComputedStyle(e), box = e.getBoundingClientRect();
		return {
			name: e === document.body ? "" : e.id ? "#" + e.id : (e.labels?.[0] ?? e).textContent.trim(),
			middle: (box.top + box.bottom) / 2, inMain: e.closest("main") !== null,
			seen: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2
				&& box.top >= 0 && box.bottom <= innerHeight && box.left >= 0 && box.right <= innerWidth,
		};
	})()`)
}

func (b *tab) press(keys string) {
	b.Helper()
	testkit.NoError(b, chromedp.Do(b.ctx, chromedp.KeyEvent(keys)))
}

// tabTo presses Tab until an element has the focus, which must be seen.
func (b *tab) tabTo(name string) {
	b.Helper()
	var passed []string
	for range 100 {
		b.press(kb.Tab)
		at := b.focus()
		if at.Name == name {
			if !at.Seen {
				b.Errorf("the focus cannot be seen on %q", name)
			}
			return
		}
		passed = append(passed, at.Name)
	}
	b.Fatalf("Tab does not reach %q: %q", name, passed)
}

// headInOrder walks from the top of the home page to its search, in the order in which the eye does.
func headInOrder(b *tab, s *site) {
	for _, width := range []int64{wide, narrow} {
		b.emulate("light", width)
		b.open(s.url+"/?lang=en", 200)
		var names []string
		line := 0.0
		for range 8 {
			b.press(kb.Tab)
			at := b.focus()
			names = append(names, at.Name)
			if at.Middle < line-10 {
				b.Errorf("at %d the focus jumps up to %q", width, at.Name)
			}
			line = at.Middle
		}
		want := []string{"Skip to the content", "Callbook", "Agents", "Calls", "Guide", "中文", "#q", "Search"}
		equal(b, want, names, "the order of the focus at %d", width)
	}
}

func skipsTheHead(b *tab, s *site) {
	b.open(s.url+"/agents?lang=en", 200)
	b.tabTo("Skip to the content")
	b.press(kb.Enter)
	b.press(kb.Tab)
	if at := b.focus(); at.Name != "#q" || !at.InMain {
		b.Errorf("past the head the focus is on %q", at.Name)
	}
}

// everyStopIsSeen walks by Tab through pages that have all kinds of links and controls, and reports stops that cannot be
// seen.
func (b *browser) everyStopIsSeen(tab *tab, _ *site) {
	tab.emulate("dark", narrow)
	for _, name := range []string{"card", "calls, searched", "owner, claimed", "operator"} {
		tab.open(b.pages[name].in("en"), 200)
		for i := 0; ; i++ {
			tab.press(kb.Tab)
			at := tab.focus()
			if at.Name == "" {
				break // past the end
			}
			if !at.Seen {
				tab.Errorf("%s: the focus cannot be seen on %q", name, at.Name)
			}
			if i > 200 {
				tab.Fatalf("%s: Tab has no end", name)
			}
		}
	}
}

// follow presses Enter, which leads to another page.
func (b *tab) follow() {
	b.Helper()
	testkit.Must(chromedp.RunResponse(b.ctx, chromedp.KeyEvent(kb.Enter)))(b)
}

// confirmsByKeyboard goes through the owner's page: a claim, a handle that is mistyped, a new key.
func confirmsByKeyboard(b *tab, s *site) {
	key := s.verified("by-keyboard")
	s.send("POST", "/api/me/owner-claim", key, map[string]any{"owner_email": "by-keyboard@example.org"}).status(202)
	s.mail("by-keyboard@example.org")
	b.emulate("light", wide)
	b.open(s.openOwnerPage("by-keyboard")+"?lang=en", 200)
	b.tabTo("This is my agent")
	b.follow()
	b.checkText("[role=status]", "Confirmed")
	equal(b, 2.0, s.send("GET", "/api/agents/by-keyboard", "", nil).value("agent", "trust", "level"), "level")
	b.tabTo("#confirm")
	b.press("other")
	b.follow()
	b.checkText("[role=alert]", "Nothing was deleted")
	b.checkText("#mistyped", "This is not the handle")
	// The browser puts the focus where the page wants it some time after loading it.
	evaluate[bool](b, `new Promise(done => {
		const look = () => document.activeElement === document.body ? setTimeout(look, 5) : done(true);
		look();
	})`)
	if at := b.focus(); at.Name != "#confirm" {
		b.Errorf("the focus is on %q", at.Name)
	}
	b.tabTo("Replace the key")
	b.follow()
	b.checkText("code", "cq_")
}

// checkText fails the test unless the text of the first element of a selector has a prefix.
func (b *tab) checkText(selector, want string) {
	b.Helper()
	if got := evaluate[string](b, fmt.Sprintf(`document.querySelector(%q)?.textContent ?? "nothing"`, selector)); !strings.HasPrefix(got, want) {
		b.Errorf("%s says %q, want %q", selector, got, want)
	}
}
