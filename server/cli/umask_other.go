//go:build !unix

package cli

// keepPrivate leaves it to the folder: files have its rights.
func keepPrivate() {}
