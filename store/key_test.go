package store

import (
	"context"
	"testing"

	"callbook/testdata/proof"
	"callbook/testdata/testkit"
)

func TestRotateKey_ConcurrentlyOneSucceeds(t *testing.T) {
	s := newStore(t)
	rounds := proof.Rounds(10, 100, 2000)
	proof.Figure(t, "act rounds", rounds)
	caller, oldKey := s.register("harbour-pilot")
	for range rounds {
		keys := make([]string, rush)
		errs := testkit.Together(rush, func(i int) (err error) {
			keys[i], _, err = s.RotateKey(context.Background(), caller)
			return err
		})
		wantOutcomes(t, "rotations", errs, map[string]int{"": 1, "unauthorized": rush - 1})
		for i, key := range append(keys, oldKey) {
			holder, err := s.Authenticate(context.Background(), key)
			if works := err == nil; works != (i < rush && errs[i] == nil) {
				t.Errorf("key %d: works is %v", i, works)
			} else if works {
				caller, oldKey = holder, key
			}
		}
	}
}
