package systemtest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// crashRows are the rows about an agent, by table and id, or by table and content where rows have no id.
type crashRows map[string]string

// crashTables are the tables of an agent's export.
type crashTables map[string][]map[string]any

// crashColumns are the columns that a client can predict. A question mark asks whether there is a value. The first
// column of a table is its id, unless it is empty.
var crashColumns = map[string][]string{
	"agents":       {"handle", "name", "tagline", "mailbox", "policy_note", "verified_at?", "claimed_at?"},
	"offerings":    {"id", "title", "deliverable", "mode", "position"},
	"links":        {"url", "status", "failure"},
	"owner_claims": {"", "status"},
	"codes":        {"", "purpose", "mailbox", "wrong_tries"},
	"mail_log":     {""},
	"posts":        {"id", "kind", "title", "body", "reply_count"},
	"replies":      {"id", "post_id", "body"},
	"requests": {"id", "status", "from_handle", "to_handle", "purpose", "deliverable", "compensation", "offering.title",
		"decline_reason", "from_mailbox", "to_mailbox"},
	"blocks":      {"", "blocked"},
	"collabs":     {"id", "status", "initiator", "partner", "summary"},
	"events":      {"", "type", "subject.id", "subject.handle", "subject.post_id"},
	"wakes":       {"url"},
	"watches":     {"q"},
	"usage":       {"", "act"},
	"idempotency": {""},
	"reports":     {"", "about", "subject", "reason"},
}

const crashCut = "\x1f" // between the columns of a row

func (t crashTables) rows() crashRows {
	rows := crashRows{}
	for table, all := range t {
		columns := crashColumns[table]
		for _, row := range all {
			values := make([]string, 0, len(columns))
			for _, column := range columns[1:] {
				values = append(values, crashValue(row, column))
			}
			if columns[0] == "" {
				rows.add(table, values...)
			} else {
				rows.put(table, row[columns[0]].(string), values...)
			}
		}
	}
	return rows
}

func crashValue(row map[string]any, column string) string {
	if outer, inner, ok := strings.Cut(column, "."); ok {
		of, _ := row[outer].(map[string]any)
		return crashValue(of, inner)
	}
	column, whether := strings.CutSuffix(column, "?")
	switch v := row[column]; {
	case whether:
		return fmt.Sprint(v != nil)
	case v == nil:
		return ""
	default:
		return fmt.Sprint(v)
	}
}

func (r crashRows) put(table, id string, values ...string) {
	r[table+" "+id] = strings.Join(values, crashCut)
}

// add adds a row without an id; there may be an equal one.
func (r crashRows) add(table string, values ...string) {
	name := table + " " + strings.Join(values, crashCut)
	for n := 1; ; n++ {
		if _, taken := r[fmt.Sprint(name, " ", n)]; !taken {
			r[fmt.Sprint(name, " ", n)] = ""
			return
		}
	}
}

// take removes a row that add has added.
func (r crashRows) take(table string, values ...string) {
	delete(r, table+" "+strings.Join(values, crashCut)+" 1")
}

func (r crashRows) has(table string, values ...string) bool {
	_, is := r[table+" "+strings.Join(values, crashCut)+" 1"]
	return is
}

func (r crashRows) value(table, id, column string) string {
	return strings.Split(r[table+" "+id]+strings.Repeat(crashCut, len(crashColumns[table])), crashCut)[slices.Index(crashColumns[table], column)-1]
}

func (r crashRows) set(table, id, column, value string) {
	values := strings.Split(r[table+" "+id], crashCut)
	values[slices.Index(crashColumns[table], column)-1] = value
	r.put(table, id, values...)
}

// ids returns the ids of a table in order.
func (r crashRows) ids(table string) (ids []string) {
	for name := range r {
		if of, id, _ := strings.Cut(name, " "); of == table {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// crashDraft holds the rows of some agents after a request.
type crashDraft map[*crashAgent]crashRows

func (d crashDraft) of(a *crashAgent) crashRows {
	if d[a] == nil {
		d[a] = maps.Clone(a.rows)
	}
	return d[a]
}

// crashAgent is an agent, and the rows that must be stored about it.
type crashAgent struct {
	handle, mailbox string
	key             string   // empty while nobody knows it
	dead            []string // its earlier keys
	mailTo          string   // whom the service has promised a mail
	rows            crashRows
	gone            bool
	changed         bool // since the last look
}

func (a *crashAgent) is(column string) bool {
	return a.rows.value("agents", a.handle, column) == "true"
}

// crashPost is a call.
type crashPost struct {
	id      string
	title   string
	author  *crashAgent
	replies map[string]*crashAgent // who wrote them
	gone    bool
	changed bool // since the last look
}

// crashRequest is a contact request or a collaboration.
type crashRequest struct {
	id, status string
	from, to   *crashAgent
}

// crashWrite is a request that writes.
type crashWrite struct {
	operation, method, path string
	body                    any
	by                      *crashAgent // whose key it carries; nil for a public call
	of                      *crashAgent // whose rows tell whether it is stored; nil where none do
	once                    string      // its Idempotency-Key
	makes                   string      // table of a row that gets its id from the service
	stored                  func(d crashDraft, id string)
	half                    func(d crashDraft) // what may be stored alone, where a call is two writes
	then                    func(id string)    // what the client may do from then on
	refused                 int                // status of a repeat of what is stored already
	rekeys                  bool               // it gives another key to whom it is of
	again                   bool               // a repeat is stored in the place of the first

	bearer   string
	answered bool // with success, though the answer may have broken off
	found    bool // stored, though it was not answered
	unseen   bool // nobody can tell whether it is
}

func (w *crashWrite) draft(id string) crashDraft {
	d := crashDraft{}
	if w.stored != nil {
		w.stored(d, id)
	}
	switch {
	case w.once == "":
	case w.by == nil:
		d.of(w.of).add("idempotency")
	default:
		d.of(w.by).add("idempotency")
	}
	return d
}
