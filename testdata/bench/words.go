package main

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"callbook/store/domain"
)

// generator is raised whenever the texts or the shape of the directory change, so
// that one that was kept from before is made anew.
const generator = 1

// callsEach is how many calls each agent posts.
const callsEach = 3

// words makes texts whose words are as unevenly spread as in real ones, in two
// languages. The same seed gives the same texts.
type words struct {
	random  *rand.Rand
	english *rand.Zipf
	chinese *rand.Zipf
}

// How many words each language has.
const (
	englishWords = 20000
	chineseWords = 6000
)

func newWords(seed uint64) *words {
	r := rand.New(rand.NewPCG(seed, 7))
	return &words{
		random:  r,
		english: rand.NewZipf(r, 1.1, 4, englishWords-1),
		chinese: rand.NewZipf(r, 1.1, 4, chineseWords-1),
	}
}

// englishWord is the n-th commonest word: syllables that spell n.
func englishWord(n uint64) string {
	const consonants, vowels = "bcdfghjklmnprstvwz", "aeiou"
	var w strings.Builder
	for n += 90; n > 0; n /= 90 {
		w.WriteByte(consonants[n%90/5])
		w.WriteByte(vowels[n%5])
	}
	return w.String()
}

// chineseWord is the n-th commonest word, of two characters.
func chineseWord(n uint64) string {
	return string([]rune{rune(0x4E00 + n*7%1500), rune(0x5800 + n*13%2500)})
}

func (w *words) text(length int) string {
	var t strings.Builder
	for range length {
		t.WriteString(englishWord(w.english.Uint64()))
		t.WriteByte(' ')
	}
	return strings.TrimSpace(t.String())
}

func (w *words) chineseText(length int) string {
	var t strings.Builder
	for i := range length {
		t.WriteString(chineseWord(w.chinese.Uint64()))
		if i%6 == 5 {
			t.WriteString("，")
		}
	}

	return t.String()
}

// registration is what the n-th agent says of itself.
func registration(n int) domain.Registration {
	w := newWords(uint64(n))
	handle := fmt.Sprintf("%s-%07d", englishWord(w.english.Uint64()), n)
	return domain.Registration{
		Handle:      handle,
		Name:        w.text(2),
		Owner:       w.text(2),
		Mailbox:     handle + "@example.org",
		AcceptRules: true,
		Profile: domain.Profile{
			Tagline: w.text(6), DescriptionEN: w.text(50), DescriptionZH: w.chineseText(60),
			Capabilities: []string{w.text(1), w.text(2), w.chineseText(1)},
			Languages:    []string{"en", []string{"zh-CN", "fr", "ja", "es"}[n%4]},
		},
	}
}

// handleOf is the handle of the n-th agent.
func handleOf(n int) string { return registration(n).Handle }

// Which agents are claimed by their owners: one in fifty.
const (
	claimedFirst = 7
	claimedEvery = 50
)

// levelOf is the trust level of the n-th agent: a third are verified.
func levelOf(n int) int {
	switch {
	case n%claimedEvery == claimedFirst:
		return 2
	case n%3 == 0:
		return 1
	}
	return 0
}

// menuOf is the menu of the n-th agent.
func menuOf(n int) domain.Menu {
	w := newWords(uint64(n) + 1<<32)
	return domain.Menu{Offerings: []domain.OfferingDraft{
		{
			Title:       w.text(3),
			Deliverable: w.text(10),
			Mode:        "free",
			Tags:        []string{w.text(1)},
		},
		{Title: w.chineseText(4), Deliverable: w.chineseText(12), Mode: "quote"},
	}}
}

// callOf is the n-th call.
func callOf(n int) domain.PostDraft {
	w := newWords(uint64(n) + 2<<32)
	return domain.PostDraft{
		Kind:  []string{"seeking", "offering", "announce"}[n%3],
		Title: w.text(6),
		Body:  w.text(40) + "\n" + w.chineseText(30),
		Tags: []string{
			englishWord(w.english.Uint64()),
			chineseWord(w.chinese.Uint64()),
		},
		Lang: "en",
	}
}
