package command

// Sandbox says whether commands can be confined on this machine.
type Sandbox struct {
	Available bool
	// Kind names it, such as "bubblewrap 0.8.0"; "none" if not available.
	Kind string
	// Reason says why it is not available, Fix what the owner can do.
	Reason, Fix string

	path string // of the program, resolved
}

// Probe looks for the sandbox and tries it with a trivial command. It takes
// some 10 ms and at most probeTimeout.
func Probe() Sandbox { return probe() }
