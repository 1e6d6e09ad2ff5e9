package server

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/jsonschema-go/jsonschema"

	"callbook/server/api"
	"callbook/store/domain"
	"callbook/testdata/proof"
	"callbook/testdata/testkit"
)

var update = flag.Bool("update", false, "write testdata/openapi.json anew instead of comparing with it")

// goldenDocument is the document of a site at http://callbook.example.org.
const goldenDocument = "../testdata/openapi.json"

type openAPI struct {
	Components struct {
		Responses map[string]openAPIBody `json:"responses"`
	} `json:"components"`
	Paths map[string]map[string]struct {
		OperationID string                 `json:"operationId"`
		RequestBody *openAPIBody           `json:"requestBody"`
		Responses   map[string]openAPIBody `json:"responses"`
	} `json:"paths"`
}

type openAPIBody struct {
	Ref         string `json:"$ref"`
	Description string `json:"description"`
	Required    bool   `json:"required"`
	Content     map[string]struct {
		Schema  map[string]any `json:"schema"`
		Example any            `json:"example"`
	} `json:"content"`
}

// document returns the document of the site, with responses in the place of references to them.
func (s *site) document() (document openAPI) {
	s.Helper()
	s.send("GET", "/openapi.json", "", nil).status(200).into(&document)
	for _, operations := range document.Paths {
		for _, op := range operations {
			for status, r := range op.Responses {
				if (r.Ref != "") != (status >= "400") {
					s.Errorf("%s, %s: $ref %q; errors alone are components", op.OperationID, status, r.Ref)
				}
				if r.Ref != "" {
					op.Responses[status] = document.Components.Responses[strings.TrimPrefix(r.Ref, api.ResponsePrefix)]
				}
			}
		}
	}
	return document
}

func TestOpenAPI_EqualsTheGoldenFile(t *testing.T) {
	s := newSite(t)
	var got bytes.Buffer
	testkit.NoError(t, json.Indent(&got, s.send("GET", "/openapi.json", "", nil).status(200).Body, "", "  "))
	got.WriteByte('\n')
	if *update {
		testkit.NoError(t, os.WriteFile(goldenDocument, got.Bytes(), 0o644))
	}
	want := testkit.Must(os.ReadFile(goldenDocument))(t)
	equal(t, strings.Split(string(want), "\n"), strings.Split(got.String(), "\n"), "the document changed; if it should, run go test ./server -run Golden -update")
}

func TestOpenAPI_ExamplesMatchTheirSchemas(t *testing.T) {
	s := newSite(t)
	d := s.document()
	check := func(label string, mode huma.ValidateMode, schema *huma.Schema, example any) {
		result := &huma.ValidateResult{}
		huma.Validate(s.server.engine.Registry, schema, huma.NewPathBuffer(nil, 0), mode, example, result)
		for _, err := range result.Errors {
			t.Errorf("%s: %v", label, err)
		}
		for _, problem := range s.undocumented(schema, "", example) {
			t.Errorf("%s: %s", label, problem)
		}
	}
	for _, op := range s.server.engine.Operations {
		got, typed := d.Paths[op.Path][strings.ToLower(op.Method)], s.server.engine.Describe(op)
		if got.RequestBody != nil {
			check(op.ID+" body", huma.ModeWriteToServer, typed.RequestBody.Content["application/json"].Schema, got.RequestBody.Content["application/json"].Example)
		}
		for status, response := range typed.Responses {
			if media := response.Content["application/json"]; media != nil {
				check(op.ID+" "+status, huma.ModeReadFromServer, media.Schema, got.Responses[status].Content["application/json"].Example)
			}
		}
		for _, p := range typed.Parameters {
			for _, example := range p.Schema.Examples {
				check(fmt.Sprintf("%s parameter %s", op.ID, p.Name), huma.ModeWriteToServer, p.Schema, example)
			}
		}
	}
}

// The document says by if and then that one of the two descriptions is required, as the service does.
func TestOpenAPI_RequiresOneDescription(t *testing.T) {
	s := newSite(t)
	var document struct {
		Components struct{ Schemas map[string]*jsonschema.Schema }
	}
	s.send("GET", "/openapi.json", "", nil).status(200).into(&document)
	schema := testkit.Must(document.Components.Schemas["Registration"].Resolve(nil))(t)
	for i, tt := range []struct {
		en, zh any
		valid  bool
	}{
		{absent{}, absent{}, false}, {"", absent{}, false}, {absent{}, "", false}, {"", "", false},
		{"Tides", absent{}, true}, {absent{}, "潮汐", true}, {"", "潮汐", true}, {"Tides", "", true}, {"Tides", "潮汐", true},
	} {
		body := registrationOf(fmt.Sprint("described-", i))
		put(body, "description_en", tt.en)
		put(body, "description_zh", tt.zh)
		if err := schema.Validate(body); (err == nil) != tt.valid {
			t.Errorf("%v, %v: by the document, %v", tt.en, tt.zh, err)
		}
		if a := s.send("POST", "/api/agents", "", body); (a.Status == 201) != tt.valid {
			t.Errorf("%v, %v: by the service, %d", tt.en, tt.zh, a.Status)
		}
	}
}

// unguessable are the operations whose example is rejected because its value is secret: a code is mailed.
var unguessable = map[string]domain.Code{"confirmVerify": domain.CodeWrongCode, "confirmRecovery": domain.CodeWrongCode}

func TestOpenAPI_ExampleBodiesAreAccepted(t *testing.T) {
	t.Parallel()
	d := newSite(t)
	proof.OneByOne(t)
	document := d.document()
	for _, op := range d.server.engine.Operations {
		body := document.Paths[op.Path][strings.ToLower(op.Method)].RequestBody
		if body == nil {
			continue
		}
		s, key, _ := newPopulatedSite(t)
		example := body.Content["application/json"].Example.(map[string]any)
		key = s.readyFor(op, key, example)
		a := s.send(op.Method, s.pathOf(op), key, example)
		if code, rejected := unguessable[op.ID]; rejected {
			a.rejected(api.ErrorMessages[code].Status, code)
		} else if a.Status >= 300 {
			t.Errorf("%s: the example of its body gets %d: %s", op.ID, a.Status, a.Body)
		}
	}
}

// readyFor creates the state in which an example is accepted, and returns the key of its sender.
// It replaces names in the example with existing ones.
func (s *site) readyFor(op *api.Operation, key string, example map[string]any) string {
	s.Helper()
	switch op.ID {
	case "registerAgent": // the example's handle is the one that lives here
		example["handle"] = "someone-new"
	case "sendRequest":
		example["offering_id"] = s.requestTo("harbour-pilot")["offering_id"]
		return s.verified("someone-new")
	case "confirmVerify":
		s.send("POST", "/api/me/verify", key, nil).status(202)
	case "confirmRecovery":
		s.verify(key)
		s.send("POST", "/api/recover", "", `{"handle":"harbour-pilot"}`).status(202)
	case "claimOwner", "setWake":
		s.verify(key)
	}
	return key
}
