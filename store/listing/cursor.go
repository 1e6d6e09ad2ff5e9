package listing

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"slices"

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
	// Partial matches are ranked when the page with the last strict match is read. Later pages take them from the
	// cursor, so that each is listed once, whatever is written in between.
	some int     // number of partial matches; without rest, strict matches come before them
	rest []int64 // those that the next page begins with
}

// Cursor returns the cursor of the page that follows.
func (p Position) Cursor() string {
	b := binary.AppendUvarint(nil, uint64(p.list))
	b = binary.AppendUvarint(b, uint64(p.tier))
	b = binary.AppendUvarint(b, uint64(p.Seq))
	b = binary.AppendUvarint(b, uint64(p.some))
	for _, id := range p.rest {
		b = binary.AppendUvarint(b, uint64(id))
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// ParseCursor parses a cursor of the named list; an empty one is the start of the list. It
// returns invalid_query for a cursor that no page of this list returned.
func ParseCursor(name, cursor string) (Position, error) {
	start := Position{list: crc32.ChecksumIEEE([]byte(name)), Seq: Last}
	if cursor == "" {
		return start, nil
	}
	numbers, err := decodeCursor(cursor)
	if err == nil && len(numbers) >= 4 {
		p := Position{list: start.list, tier: int(numbers[1]), Seq: int64(numbers[2]), some: int(numbers[3])}
		for _, id := range numbers[4:] {
			if slices.Contains(p.rest, int64(id)) || len(p.rest) == search.MaxPartial {
				p.some = -1 // invalid
				break
			}
			p.rest = append(p.rest, int64(id))
		}
		if p.tier <= search.Tiers && p.Seq > 0 && len(p.rest) <= p.some && p.some <= search.MaxPartial && p.Cursor() == cursor {
			return p, nil
		}
	}
	return start, &domain.Error{Code: domain.CodeInvalidQuery, Fields: []domain.FieldError{{Field: "cursor", Code: domain.FaultBadValue, Topic: "cursor"}}}
}

func decodeCursor(cursor string) (numbers []uint64, err error) {
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	for len(b) > 0 && err == nil {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > math.MaxInt64 {
			return nil, errors.New("it is cut off")
		}
		numbers, b = append(numbers, n), b[size:]
	}
	return numbers, err
}
