"""What `prover doctor` looks at: the machine, what is installed, what is configured, an engine."""
