//go:build !unix

package cli

// restrictPermissions does nothing: the folder decides about permissions.
func restrictPermissions() {}
