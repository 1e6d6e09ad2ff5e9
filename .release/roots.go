package main

import (
	"encoding/pem"
	"io"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// writeRoots writes the certificates of Mozilla's list in PEM. It leaves out those that Mozilla
// trusts for some certificates alone, because a file of certificates cannot say so.
func writeRoots(w io.Writer) error {
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		if err := pem.Encode(w, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return err
		}
	}

	return nil
}
