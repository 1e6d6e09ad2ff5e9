//go:build !linux

package listen

func holder(int) string { return "" }
