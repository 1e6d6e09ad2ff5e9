package listing

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"

	"callbook/store/domain"
	"callbook/store/search"
)

// Last is above every position of a record.
const Last = int64(1) << 62

// Position is where a page of a list ended: the content of a cursor.
type Position struct {
	Seq  int64  // the next page holds records below it
	list uint32 // checksum of Query.Name
	tier int
}

// Cursor returns the cursor of the page that follows.
func (p Position) Cursor() string {
	b := binary.AppendUvarint(nil, uint64(p.list))
	b = binary.AppendUvarint(b, uint64(p.tier))
	b = binary.AppendUvarint(b, uint64(p.Seq))
	return base64.RawURLEncoding.EncodeToString(b)
}

// ParseCursor parses a cursor of the named list; an empty one is the start of the list. It
// returns invalid_query for a cursor that no page of this list returned.
func ParseCursor(name, cursor string) (Position, error) {
	p := Position{list: crc32.ChecksumIEEE([]byte(name)), Seq: Last}
	if cursor == "" {
		return p, nil
	}

	// The comparison below finds what is no base64.
	b, _ := base64.RawURLEncoding.DecodeString(cursor)
	var numbers [3]uint64
	for i := range numbers {
		n, size := binary.Uvarint(b)
		numbers[i], b = n, b[max(0, size):]
	}

	// Only the text that Cursor returns for these numbers and for this list is a cursor.
	p.tier, p.Seq = int(numbers[1]), int64(numbers[2])
	if p.tier < 0 || p.tier >= search.Tiers || p.Seq <= 0 || p.Cursor() != cursor {
		return p, &domain.Error{
			Code: domain.CodeInvalidQuery,
			Fields: []domain.FieldError{
				{Field: "cursor", Code: domain.FaultBadValue, Topic: "cursor"},
			},
		}
	}
	return p, nil
}
