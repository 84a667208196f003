package tagged

// Name is the system's.
func Name() string { return name() }
