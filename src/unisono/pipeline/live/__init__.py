"""Live measures and audits: what a collector takes in, held to the properties while the run goes on."""
