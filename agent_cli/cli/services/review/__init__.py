"""Reviews of a change: the sessions they ask, and what the user is shown."""
