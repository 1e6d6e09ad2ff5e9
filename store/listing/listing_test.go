package listing

import (
	"testing"
)

func TestParseCursor_TakesItsOwnAlone(t *testing.T) {
	own, _ := ParseCursor("list", "")
	own.tier, own.Seq = 2, 1<<40
	if got, err := ParseCursor("list", own.Cursor()); err != nil || got != own {
		t.Errorf("%+v, %v, want %+v", got, err, own)
	}

	for name, change := range map[string]func(*Position){
		"another list":    func(p *Position) { p.list++ },
		"no such tier":    func(p *Position) { p.tier = 9 },
		"a negative tier": func(p *Position) { p.tier = -1 },
		"no record":       func(p *Position) { p.Seq = 0 },
		"below records":   func(p *Position) { p.Seq = -1 },
	} {
		p := own
		change(&p)
		if _, err := ParseCursor("list", p.Cursor()); err == nil {
			t.Errorf("%s: %+v is accepted", name, p)
		}
	}
	for _, cursor := range []string{"-", "AAAA", own.Cursor() + "AA", own.Cursor()[:4], "=", own.Cursor() + "="} {
		if _, err := ParseCursor("list", cursor); err == nil {
			t.Errorf("%q is accepted", cursor)
		}
	}
}
