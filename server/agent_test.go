package server

import "testing"

func TestAnAgentRegistersAndIsFound(t *testing.T) {
	s := newSite(t)
	key := s.agent("harbour-pilot", "name", "Harbour Pilot", "description_zh", "为小港口安排泊位与潮汐，人工智能助手。", "capabilities", []string{"Tide tables"}, "languages", []string{"en", "zh-cn"})
	s.call("PUT", "/api/me/offerings", key, `{"offerings":[{"title":"Tide table","deliverable":"CSV of tides","mode":"free"}]}`).status(200)
	s.post(key, "Tide data wanted", "tags", []string{"Tides"})
	card := s.call("GET", "/api/agents/harbour-pilot", "", nil).status(200)
	if got := card.text("agent", "languages", 1); got != "zh-CN" {
		t.Errorf("language stored as %q", got)
	}
	if n := card.len("recent_posts"); n != 1 {
		t.Errorf("%d recent posts", n)
	}
	for _, q := range []string{"pilot", "潮汐", "智能", "泊", "TIDE", "tid", "HARBOUR%20tide", "harbour-pilot"} {
		if n := s.call("GET", "/api/agents?q="+q, "", nil).status(200).len("agents"); n != 1 {
			t.Errorf("q=%s finds %d", q, n)
		}
	}
	for _, q := range []string{"capability=tide%20TABLES", "language=ZH", "language=zh-CN", "verified=false", "min_level=0", "new=true", "view=brief", "new=false"} {
		if n := s.call("GET", "/api/agents?"+q, "", nil).status(200).len("agents"); n != 1 {
			t.Errorf("%s finds %d", q, n)
		}
	}
	s.call("GET", "/api/me", key, nil).status(200)
	s.call("GET", "/api/me/export", key, nil).status(200)
	s.call("GET", "/api/me/replies", key, nil).status(200)
	s.call("PATCH", "/api/me", key, `{"tagline":"Berths","contact_policy":{"weekly_cap":3}}`).status(200)
	for _, q := range []string{"", "?kind=seeking", "?tag=tides", "?q=tide", "?author=harbour-pilot", "?open=true"} {
		if n := s.call("GET", "/api/posts"+q, "", nil).status(200).len("posts"); n != 1 {
			t.Errorf("posts%s finds %d", q, n)
		}
	}
	s.call("GET", "/api/stats", "", nil).status(200)
	s.call("GET", "/api", "", nil).status(200)
	s.call("DELETE", "/api/me?confirm=harbour-pilot", key, nil).status(204)
	s.call("GET", "/api/agents/harbour-pilot", "", nil).status(404)
}
