"""What every layer may use: clock, identifiers, data directory, log setup, failure points."""
