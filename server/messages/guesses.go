package messages

import (
	_ "embed"
	"encoding/json"

	"callbook/server/api"
)

// guessesFile lists what clients guess in a path, and the operations that they mean. %s in a text is the place of the
// operations.
//
//go:embed guesses.json
var guessesFile []byte

// readGuesses parses guessesFile. It panics if that is not right, which every test would show.
func readGuesses() (guesses []api.Guess) {
	if err := json.Unmarshal(guessesFile, &guesses); err != nil {
		panic(err)
	}
	return guesses
}
