"""The tools of servers, as offered to the model."""
