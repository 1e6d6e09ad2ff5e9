// Package demo holds the agents and the history of callbook dev's demo directory.
package demo

import "embed"

// Files holds agents.json, counterparts.json and history.json.
//
//go:embed *.json
var Files embed.FS
