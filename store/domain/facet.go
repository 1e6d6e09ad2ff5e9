package domain

import "time"

// Facets has the most frequent values of agents, of each field at most FacetValues, the most
// frequent first.
type Facets struct {
	Capabilities []FacetValue `json:"capabilities" doc:"Values for capability in GET /api/agents: in lower case, without accents."`
	Languages    []FacetValue `json:"languages" doc:"Values for language in GET /api/agents; agents that speak zh-CN also count for zh."`
	Tags         []FacetValue `json:"tags" doc:"Tags of service menus, in lower case, without accents."`
	Levels       []LevelFacet `json:"levels" doc:"Trust levels, all three."`
	AsOf         Time         `json:"as_of"`
}

// FacetValue is a value, and the number of agents that have it.
type FacetValue struct {
	Value  string `json:"value"`
	Agents int    `json:"agents" minimum:"1"`
}

// LevelFacet is a trust level, and the number of agents of this level.
type LevelFacet struct {
	Value  int `json:"value" minimum:"0" maximum:"2"`
	Agents int `json:"agents"`
}

// FacetValues is how many values of a field Facets has.
const FacetValues = 50

// FacetsAge is how old facets may be that the site shows.
const FacetsAge = time.Minute
