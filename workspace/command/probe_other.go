//go:build !linux

package command

import "runtime"

func probe() Sandbox {
	return Sandbox{Kind: "none", Reason: "no sandbox is built in for " + runtime.GOOS,
		Fix: "share the folder from a Linux machine, or grant with unsandboxed"}
}
