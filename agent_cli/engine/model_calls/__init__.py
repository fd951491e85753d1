"""One model call with its retries, budget and limits."""
