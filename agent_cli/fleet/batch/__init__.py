"""Run a batch from its first attempt to its report, within its budget and the limits of the providers."""
