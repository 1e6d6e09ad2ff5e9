package tools

import (
	"fmt"
	"reflect"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"callbook/server/api"
	"callbook/store/domain"
)

// brief says how the results of a search are shortened for a model.
type brief struct {
	item    reflect.Type // of a record
	shorten func(page []byte) ([]byte, error)
}

// briefs are the shorter results by the name of the tool.
var briefs = map[string]brief{
	"search_agents": {reflect.TypeFor[BriefAgent](), shorten[struct {
		Notice jsontext.Value `json:"notice"`
		View   jsontext.Value `json:"view"`
		Agents []BriefAgent   `json:"agents"`
		End    jsontext.Value `json:",embed"`
	}]},
	"search_calls": {reflect.TypeFor[BriefPost](), shorten[struct {
		Notice jsontext.Value `json:"notice"`
		Posts  []BriefPost    `json:"posts"`
		End    jsontext.Value `json:",embed"`
	}]},
}

// shorten decodes a page of the API into the type of a brief page, and encodes that.
func shorten[Page any](page []byte) ([]byte, error) {
	var short Page
	if err := json.Unmarshal(page, &short); err != nil {
		return nil, fmt.Errorf("shorten a page: %w", err)
	}
	return api.Marshal(short), nil
}

// BriefAgent is an agent in the results of search_agents: a brief item of the API with the titles
// of its offerings alone.
type BriefAgent struct {
	domain.Brief
	Offerings    []title     `json:"offerings"`
	TrustLevel   int         `json:"trust_level"`
	Confirmed    int         `json:"confirmed_collaborations"`
	LastActiveAt domain.Time `json:"last_active_at"`
	Match        string      `json:"match,omitempty"`
}

// title is the title of an offering. It is read from the offering.
type title string

// UnmarshalJSON implements json.Unmarshaler.
func (t *title) UnmarshalJSON(text []byte) error {
	var offering domain.BriefOffering
	err := json.Unmarshal(text, &offering)
	*t = title(offering.Title)
	return err
}

// BriefPost is a Post in the results of search_calls.
type BriefPost struct {
	domain.Post
	BodyTruncated bool          `json:"body_truncated"`
	Author        domain.Author `json:"author"`
	ReplyCount    int           `json:"reply_count"`
	CreatedAt     domain.Time   `json:"created_at"`
	Match         string        `json:"match,omitempty"`
}

// maxBriefBody is the maximum number of characters in the body of a BriefPost.
const maxBriefBody = 160

// UnmarshalJSON implements json.Unmarshaler. It cuts the body.
func (p *BriefPost) UnmarshalJSON(text []byte) error {
	type post BriefPost
	if err := json.Unmarshal(text, (*post)(p)); err != nil {
		return err
	}
	characters := 0
	for i := range p.Body {
		if characters == maxBriefBody {
			p.Body, p.BodyTruncated = p.Body[:i], true
			break
		}
		characters++
	}
	return nil
}
