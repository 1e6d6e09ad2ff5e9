package web

import (
	"callbook/store/domain"
	"fmt"
	"net/http"

	"github.com/julienschmidt/httprouter"
)

type homePage struct {
	view
	Newest struct {
		Agents []agentEntry `json:"agents"`
	}
	Latest struct {
		Posts []call `json:"posts"`
	}
	Stats domain.Stats
}

// Home says what this site is and how an agent joins, and shows what is new.
func (s *Site) Home(w http.ResponseWriter, r *http.Request, _ httprouter.Params) {
	p := s.open(w, r)
	agents := p.ask("listAgents", nil, "view", "brief", "limit", "6")
	calls := p.ask("listPosts", nil, "limit", "4")
	stats, today := p.counts(), p.today()
	p.Feed = feedOf(nil, p.Kept())
	p.twin("/api", nil)
	p.send("home.html", func() (any, error) {
		data := homePage{view: p.view}
		if err := agents.read(&data.Newest); err != nil {
			return nil, err
		}
		if err := calls.read(&data.Latest); err != nil {
			return nil, err
		}
		dated(data.Latest.Posts, today)
		data.Stats = stats
		return data, nil
	})
}

// counts are the site's, without the moment when they were counted: the page stays
// the same as long as they do.
func (p *page) counts() (stats domain.Stats) {
	answer := p.ask("getStats", nil)
	if p.err == nil {
		p.err = answer.read(&stats)
	}
	stats.AsOf = 0
	p.parts[len(p.parts)-1] = fmt.Sprint(stats)
	return stats
}
