//go:build !linux

package main

import (
	"os/exec"
	"time"
)

func endWithParent(*exec.Cmd) {}

func (p *process) cpu() (time.Duration, bool) { return 0, false }

func (p *process) anonymous() (int64, bool) { return 0, false }
