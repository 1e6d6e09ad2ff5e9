package server

import (
	"fmt"

	"github.com/go-json-experiment/json"

	"callbook/store/domain"
)

// The store returns stored pieces of JSON. These functions decode them.

func profileOf(d domain.AgentDocument) domain.Agent {
	return decoded[domain.Agent]("{" + d.Profile + "}")
}

func briefOf(d domain.AgentDocument) domain.Brief { return decoded[domain.Brief]("{" + d.Brief + "}") }

func recentPostsOf(d domain.AgentDocument) []domain.RecentPost {
	return decoded[[]domain.RecentPost](d.RecentPosts)
}

func matchedOf(d domain.AgentDocument) []domain.Offering {
	matched := []domain.Offering{}
	for _, offering := range d.Matched {
		matched = append(matched, decoded[domain.Offering](offering))
	}
	return matched
}

func callOf(d domain.PostDocument) domain.Post { return decoded[domain.Post]("{" + d.Post + "}") }

func authorOf(author string) domain.Author { return decoded[domain.Author](author) }

// decoded decodes what the store has encoded.
func decoded[T any](text string) (v T) {
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		panic(fmt.Errorf("decode what is stored: %w", err))
	}
	return v
}
