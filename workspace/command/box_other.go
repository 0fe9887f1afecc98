//go:build !linux

package command

func (r *Runner) prepareSandbox() error {
	r.sandbox = Probe()
	return nil
}

func startBoxed(*spawner, string, []string, []byte, launch) (process, error) {
	return nil, errNoSandbox
}
