package main

import (
	"cmp"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// chart is a chart of horizontal bars in groups. The bars of a group are to scale, the longest is
// as wide as the chart.
type chart struct {
	title  string
	groups []group
}

type group struct {
	name string
	bars []chartBar
}

type chartBar struct {
	name  string // of the side; it has a colour
	value float64
	label string
}

// writeCharts writes the result's charts into the folder: of the rows that are compared with
// PocketBase, and of those about growth.
func (r *result) writeCharts(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}

	throughput := chart{title: "Requests per second (longer is better)"}
	latency := chart{title: "99 % of requests take at most (shorter is better)"}
	growth := chart{title: "Median time of a request of one client, by the size of the directory"}

	for _, l := range r.Rows {
		if l.TimesPocketBase > 0 {
			sides := []peer{{"Callbook", l.Rate, l.P99}}
			for _, p := range l.Peers {
				if p.Name != peerBefore {
					sides = append(sides, p)
				}
			}

			throughput.add(
				l.What,
				sides,
				func(p peer) (float64, string) { return p.Rate, fmt.Sprintf("%.0f", p.Rate) },
			)
			latency.add(
				l.What,
				sides,
				func(p peer) (float64, string) { return float64(p.P99) / float64(time.Microsecond), shortTime(p.P99) },
			)
		}

		if len(l.Sizes) > 0 {
			g := group{name: l.What}
			for _, s := range l.Sizes {
				g.bars = append(
					g.bars,
					chartBar{
						fmt.Sprintf("%d agents", s.Agents),
						float64(s.P50) / float64(time.Microsecond),
						shortTime(s.P50),
					},
				)
			}

			growth.groups = append(growth.groups, g)
		}
	}

	for name, c := range map[string]chart{"throughput": throughput, "latency": latency, "growth": growth} {
		if len(c.groups) == 0 {
			continue
		}
		if err := os.WriteFile(filepath.Join(folder, name+".svg"), []byte(c.svg(r.head())), 0o644); err != nil {
			return err
		}
	}

	return nil
}

func (c *chart) add(name string, sides []peer, value func(peer) (float64, string)) {
	g := group{name: name}
	for _, p := range sides {
		v, label := value(p)
		g.bars = append(g.bars, chartBar{p.Name, v, label})
	}
	c.groups = append(c.groups, g)
}

// The measures of a chart in pixels.
const (
	chartWidth = 760
	barsLeft   = 130
	barsWidth  = 520
	barHeight  = 16
)

// colours of the bars, by the order in which their names first occur. Each has a contrast of 3
// with white and black.
var colours = []string{"#2f7de1", "#7a8595", "#c2571a", "#2e8b57"}

// svg draws the chart, with a description of every bar as text. head names the run.
func (c chart) svg(head string) string {
	var names []string
	for _, g := range c.groups {
		for _, b := range g.bars {
			if !slices.Contains(names, b.name) {
				names = append(names, b.name)
			}
		}
	}

	var b strings.Builder
	y := 46
	for _, g := range c.groups {
		longest := 0.0
		for _, one := range g.bars {
			longest = max(longest, one.value)
		}

		y += 26
		fmt.Fprintf(
			&b,
			"<text x=\"8\" y=\"%d\" font-weight=\"600\">%s</text>\n",
			y,
			html.EscapeString(g.name),
		)
		y += 6

		for _, one := range g.bars {
			width := barsWidth * one.value / longest
			fmt.Fprintf(
				&b,
				"<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text><rect x=\"%d\" y=\"%d\" width=\"%.0f\" height=\"%d\" fill=\"%s\"/><text x=\"%.0f\" y=\"%d\">%s</text>\n",
				barsLeft-8,
				y+12,
				html.EscapeString(one.name),
				barsLeft,
				y,
				width,
				barHeight-2,
				colours[slices.Index(names, one.name)%len(colours)],
				barsLeft+width+6,
				y+12,
				html.EscapeString(cmp.Or(one.label, "0")),
			)

			y += barHeight
		}
	}

	y += 16
	return fmt.Sprintf(
		`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d" font-size="13" role="img" aria-labelledby="t">
<title id="t">%[3]s</title>
<style>text{font-family:system-ui,sans-serif;fill:#1b1f24}@media(prefers-color-scheme:dark){text{fill:#e6e9ec}}</style>
<text x="8" y="22" font-size="16" font-weight="600">%[3]s</text>
<text x="8" y="42" opacity=".75">%[4]s</text>
%[5]s</svg>
`,
		chartWidth,
		y,
		html.EscapeString(c.title),
		html.EscapeString(head),
		b.String(),
	)
}
