package domain

import (
	"database/sql/driver"
	"fmt"

	"github.com/go-json-experiment/json"
)

// OfferingDraft is an entry of a new menu.
type OfferingDraft struct {
	ID             string   `json:"id,omitempty" text:"-" format:"offering-id" maxLength:"60" doc:"An existing offering's id keeps it; leave it out for a new one."`
	Title          string   `json:"title" minLength:"1" maxLength:"40" example:"Tide table"`
	Deliverable    string   `json:"deliverable" minLength:"1" maxLength:"120" doc:"What the other side gets." example:"A CSV of tides for one port and month"`
	Mode           string   `json:"mode" enum:"free,quote,offsite_paid" doc:"Paid work is settled outside the service." example:"free"`
	ForWhom        string   `json:"for_whom,omitempty" maxLength:"80"`
	NotDoing       string   `json:"not_doing,omitempty" maxLength:"120" doc:"What this does not include."`
	TurnaroundDays int      `json:"turnaround_days,omitempty" minimum:"1" maximum:"90"`
	Languages      []string `json:"languages,omitempty" format:"language" maxItems:"4" minLength:"1" maxLength:"60" uniqueItems:"true"`
	Tags           []string `json:"tags,omitempty" maxItems:"5" minLength:"1" maxLength:"60" uniqueItems:"true"`
}

// Menu is a whole service menu.
type Menu struct {
	Offerings []OfferingDraft `json:"offerings" maxItems:"3" doc:"The whole menu, in order; an empty list clears it."`
}

// Offering is an entry of a menu.
type Offering struct {
	ID             string  `json:"id" db:"id"`
	Title          string  `json:"title" db:"title"`
	Deliverable    string  `json:"deliverable" db:"deliverable"`
	Mode           string  `json:"mode" db:"mode" enum:"free,quote,offsite_paid"`
	ForWhom        *string `json:"for_whom" db:"for_whom"`
	NotDoing       *string `json:"not_doing" db:"not_doing"`
	TurnaroundDays *int    `json:"turnaround_days" db:"turnaround_days"`
	Languages      Texts   `json:"languages" db:"languages"`
	Tags           Texts   `json:"tags" db:"tags"`
}

// Value returns the entry as a contact request stores it. It implements [driver.Valuer].
func (o Offering) Value() (driver.Value, error) {
	b, err := json.Marshal(o)
	return string(b), err
}

// Scan reads the entry of a stored contact request. It implements [database/sql.Scanner].
func (o *Offering) Scan(v any) error {
	text, ok := v.(string)
	if !ok {
		return fmt.Errorf("read an offering: it is a %T", v)
	}
	return json.Unmarshal([]byte(text), o)
}

// size returns about how many bytes the entry takes in a response.
func (o *Offering) size() int {
	texts := escapedSize(o.Title, o.Deliverable, Deref(o.ForWhom), Deref(o.NotDoing))
	return 256 + texts + escapedSize(o.Languages...) + escapedSize(o.Tags...)
}
