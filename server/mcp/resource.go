package mcp

import (
	"context"
	"errors"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

func addResource(server *sdk.Server, r Resource) {
	prefix, _, open := strings.Cut(r.URI, "{")
	var meta sdk.Meta
	if r.Untrusted {
		meta = untrusted()
	}
	read := func(ctx context.Context, request *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return r.read(exchangeOf(ctx), request.Params.URI, strings.TrimPrefix(request.Params.URI, prefix))
	}
	if open {
		server.AddResourceTemplate(&sdk.ResourceTemplate{
			Meta: meta, URITemplate: r.URI, Name: r.Name, Title: r.Title, Description: r.Description, MIMEType: r.Type,
		}, read)
		return
	}
	server.AddResource(&sdk.Resource{
		Meta: meta, URI: r.URI, Name: r.Name, Title: r.Title, Description: r.Description, MIMEType: r.Type,
	}, read)
}

func (r *Resource) read(x *exchange, uri, part string) (*sdk.ReadResourceResult, error) {
	var body []byte
	err := x.guarded(func() (err error) {
		if part == "" && strings.Contains(r.URI, "{") {
			return nil
		}
		body, err = r.Read(x.ctx, part)
		if errors.Is(err, ErrNotFound) {
			return nil
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if body == nil {
		return nil, x.refuse(unknownResource)
	}
	contents := &sdk.ResourceContents{URI: uri, MIMEType: r.Type, Text: x.keep(quoted(body))}
	if r.Untrusted {
		contents.Meta = untrusted()
	}
	return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{contents}}, nil
}
