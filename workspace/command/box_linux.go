package command

// prepareSandbox looks for the sandbox and assembles its filter.
func (r *Runner) prepareSandbox() error {
	r.sandbox = Probe()
	if !r.sandbox.Available {
		return nil
	}
	var err error
	r.filter, err = seccompFilter(r.cfg.UnixSockets && !r.cfg.AllowNet)
	return err
}
