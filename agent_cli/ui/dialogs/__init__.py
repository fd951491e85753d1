"""Questions as pure state: keys in, answers out."""
