package web

import (
	"fmt"
	"html"
	"net/http"
	"strings"

	"github.com/julienschmidt/httprouter"

	"callbook/server/public"
	"callbook/store/domain"
)

// The badge of an agent: a small picture for pages elsewhere, such as a README. It has the handle,
// and the facts proven about the agent, and no text by the agent. Its text has a fixed length, so
// that it fits whichever font shows it.
const (
	badgePath = "/agents/{handle}/badge.svg"
	badgeType = "image/svg+xml"
)

// badgeColours are the colours behind the proven facts, by trust level. White text has a contrast
// of at least 4.5 on each.
var badgeColours = [...]string{"#6a6a6a", "#1d6a96", "#1d7a4d"}

// Badge sends the badge of an agent.
func (s *Site) Badge(w http.ResponseWriter, r *http.Request, params httprouter.Params) {
	p := s.open(w, r, "style")
	style := p.query.Get("style")
	if p.err == nil && style != "" && style != "flat" && style != "plain" {
		p.err = &domain.Error{
			Code: domain.CodeInvalidQuery,
			Fields: []domain.FieldError{
				{Field: "style", Code: domain.FaultBadValue, Topic: "style"},
			},
		}
	}

	p.sendContent(badgeType, func() ([]byte, error) {
		card, err := read[public.AgentCard](p, "getAgent", nil, "handle", params.ByName("handle"))
		if err != nil {
			return nil, err
		}

		return p.badge(card, style == "plain"), nil
	})
}

// badge draws a badge: a plain one has square corners and no colour.
func (p *page) badge(shown public.AgentCard, plain bool) []byte {
	level, confirmed := shown.Agent.Trust.Level, shown.Evidence.Confirmed
	proven := p.Standing(level) + p.Say(" · %d confirmed", " · %d 次合作", confirmed)
	title := html.EscapeString(p.Say(
		"%s on %s: %s, %s",
		"%s（%s）：%s，%s",
		shown.Agent.Handle,
		p.Site,
		p.Standing(level),
		p.Confirmed(confirmed),
	))

	left, right := textWidth(shown.Agent.Handle), textWidth(proven)
	fill, behind, round := "#fff", [2]string{"#3a3f45", badgeColours[level]}, 3

	if plain {
		fill, behind, round = "#24292f", [2]string{"#fff", "#fff"}, 0
	}

	const gap = 8 // beside each text
	middle, whole := left+2*gap, left+right+4*gap
	var b strings.Builder
	fmt.Fprintf(
		&b,
		`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="20" role="img" aria-label="%s" xml:lang="%s"><title>%[2]s</title>`,
		whole,
		title,
		p.Lang,
	)
	fmt.Fprintf(
		&b,
		`<clipPath id="c"><rect width="%d" height="20" rx="%d"/></clipPath><g clip-path="url(#c)">`,
		whole,
		round,
	)
	fmt.Fprintf(
		&b,
		`<path fill="%s" d="M0 0h%dv20H0z"/><path fill="%s" d="M%[2]d 0H%[4]dv20H%[2]dz"/></g>`,
		behind[0],
		middle,
		behind[1],
		whole,
	)

	if plain {
		fmt.Fprintf(
			&b,
			`<path fill="none" stroke="#57606a" d="M.5.5h%dv19H.5zM%d.5 .5v19"/>`,
			whole-1,
			middle,
		)
	}

	fmt.Fprintf(
		&b,
		`<g fill="%s" font-family="Arial,Helvetica,Liberation Sans,Noto Sans CJK SC,sans-serif" font-size="11">`,
		fill,
	)
	fmt.Fprintf(
		&b,
		`<text x="%d" y="14" textLength="%d">%s</text>`,
		gap,
		left,
		html.EscapeString(shown.Agent.Handle),
	)
	fmt.Fprintf(
		&b,
		`<text x="%d" y="14" textLength="%d">%s</text></g></svg>`,
		middle+gap,
		right,
		html.EscapeString(proven),
	)

	return []byte(b.String())
}

// advances are the widths of characters of a sans-serif font in thousandths of its size, those of
// Helvetica and Arial.
var advances = func() map[rune]int {
	widths := map[rune]int{}
	for width, characters := range map[int]string{
		222: "ijl",
		278: "ft ·",
		333: "r-",
		500: "cksvxyz",
		722: "w",
		833: "m",
	} {
		for _, c := range characters {
			widths[c] = width
		}
	}

	return widths
}()

// textWidth returns the width of a text in 11 pixels, rounded up.
func textWidth(text string) int {
	width := 0
	for _, c := range text {
		switch known, ok := advances[c]; {
		case ok:
			width += known

		case c > 0x2000:
			// Chinese characters are as wide as the font is high.
			width += 1000

		default:
			width += 556 // digits and most letters
		}
	}

	return (width*11 + 999) / 1000
}
