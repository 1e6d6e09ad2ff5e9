// Release writes the certificates of the authorities that a container image trusts (release
// roots), or the bill of materials of a built program, in CycloneDX's JSON:
//
//	release VERSION PROGRAM SQLITE-BILL >FILE
//
// The modules are those that the program names itself. SQLite is C made into Go, and
// no list of modules knows it: its driver publishes a bill of its own, which names it
// with its version, and whose parts stand below the driver. Licences stand in
// THIRD-PARTY.txt as they are: those that a tool guesses from texts are often wrong.
package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/CycloneDX/cyclonedx-gomod/pkg/generate/bin"
	"github.com/rs/zerolog"
)

const driver = "modernc.org/sqlite"

func main() {
	if len(os.Args) == 2 && os.Args[1] == "roots" {
		if err := writeRoots(os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "release:", err)
			os.Exit(1)
		}

		return
	}

	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "release VERSION PROGRAM SQLITE-BILL, or: release roots")
		os.Exit(64)
	}

	if err := write(os.Stdout, os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func write(w io.Writer, version, program, sqliteBill string) error {
	bill, err := modules(version, program)
	if err != nil {
		return fmt.Errorf("read %s: %w", program, err)
	}

	parts, err := linked(sqliteBill)
	if err != nil {
		return fmt.Errorf("read %s: %w", sqliteBill, err)
	}

	at := slices.IndexFunc(*bill.Components, func(c cdx.Component) bool { return c.Name == driver })
	if at < 0 || len(parts) == 0 {
		return fmt.Errorf("no %s in the program, or nothing in its bill", driver)
	}

	(*bill.Components)[at].Components = &parts
	return cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bill)
}

func modules(version, program string) (*cdx.BOM, error) {
	generator, err := bin.NewGenerator(program,
		bin.WithIncludeStdlib(true),
		bin.WithVersionOverride(version),
		bin.WithLogger(zerolog.Nop()))
	if err != nil {
		return nil, err
	}

	return generator.Generate()
}

// linked is what a module's own bill names beside Go modules as part of every program
// that links it.
func linked(bill string) ([]cdx.Component, error) {
	f, err := os.Open(bill)
	if err != nil {
		return nil, err
	}

	defer f.Close()
	var own cdx.BOM
	if err := cdx.NewBOMDecoder(f, cdx.BOMFileFormatJSON).Decode(&own); err != nil {
		return nil, err
	}
	if own.Components == nil {
		return nil, nil
	}

	return slices.DeleteFunc(*own.Components, func(c cdx.Component) bool {
		return c.Scope != cdx.ScopeRequired || strings.HasPrefix(c.PackageURL, "pkg:golang/")
	}), nil
}
