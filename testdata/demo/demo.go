// Package demo holds the agents, posts and contact requests of callbook dev's demo directory.
package demo

import "embed"

// Files holds agents.json, calls.json, contacts.json and counterparts.json.
//
//go:embed *.json
var Files embed.FS
