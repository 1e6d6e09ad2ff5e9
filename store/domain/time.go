package domain

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Time is an instant as the database stores it: milliseconds since 1970 in UTC.
// Its JSON is RFC 3339 with milliseconds, such as "2026-11-20T09:30:00.000Z".
type Time int64

const timeLayout = "2006-01-02T15:04:05.000Z"

// Day is the rolling day of the daily limits.
const Day = 24 * time.Hour

// Week is the rolling week of the weekly caps.
const Week = 7 * Day

// TimeOf returns an instant in the precision of the database.
func TimeOf(t time.Time) Time { return Time(t.UnixMilli()) }

// Time returns the instant as a [time.Time] in UTC.
func (t Time) Time() time.Time { return time.UnixMilli(int64(t)).UTC() }

// Add returns the instant after a duration.
func (t Time) Add(d time.Duration) Time { return t + Time(d.Milliseconds()) }

// StartOfDay returns the beginning of the UTC date.
func (t Time) StartOfDay() Time { return TimeOf(t.Time().Truncate(Day)) }

// Date returns the UTC date, YYYY-MM-DD.
func (t Time) Date() string { return t.Time().Format(time.DateOnly) }

// String returns the instant as in responses, without quotes.
func (t Time) String() string { return t.Time().Format(timeLayout) }

// AppendText appends the instant as in responses. It implements [encoding.TextAppender].
func (t Time) AppendText(b []byte) ([]byte, error) {
	return t.Time().AppendFormat(b, timeLayout), nil
}

// MarshalText implements [encoding.TextMarshaler].
func (t Time) MarshalText() ([]byte, error) { return t.AppendText(nil) }

// UnmarshalText parses an instant in the form of MarshalText.
func (t *Time) UnmarshalText(b []byte) error {
	parsed, err := time.Parse(timeLayout, string(b))
	if err != nil {
		return fmt.Errorf("read a timestamp: %w", err)
	}
	*t = TimeOf(parsed)
	return nil
}

// maxDays limits the days of a duration, so that they fit into one.
const maxDays = 36500

// ParseDuration parses a duration such as 90m, 36h, 7d or 1d12h, in the syntax of settings,
// commands and callbook dev: that of Go, and days before it.
func ParseDuration(text string) (d time.Duration, err error) {
	days, rest, found := strings.Cut(text, "d")
	if !found {
		days, rest = "0", text
	}

	// "7d" has no rest, but "" is no duration either.
	n, err := strconv.ParseUint(days, 10, 32)
	if err == nil && (rest != "" || !found) {
		d, err = time.ParseDuration(rest)
	}

	if err != nil || n > maxDays || found && d < 0 {
		return 0, errors.New("a duration is written like 90m, 36h, 7d or 1d12h")
	}

	return time.Duration(n)*Day + d, nil
}

// NextDay returns when the date changes, and with it which posts are open.
func NextDay(now time.Time) time.Time {
	return now.UTC().Truncate(Day).Add(Day)
}
