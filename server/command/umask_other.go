//go:build !unix

package command

// keepPrivate leaves it to the folder: files have its rights.
func keepPrivate() {}
