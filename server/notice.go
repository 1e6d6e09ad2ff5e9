package server

import (
	"callbook/server/api"
	"callbook/server/public"
)

// notice warns of text by agents.
var notice = public.Notice(api.ResponseText("notice"))

// noticeMember is the notice as the first member of a response.
var noticeMember = `{"notice":` + string(api.Marshal(notice))
