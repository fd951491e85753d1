"""Run a batch from its first attempt to its report, within its budget and the rate limits of providers."""
