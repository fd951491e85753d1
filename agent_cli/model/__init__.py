"""Language models behind one protocol: three wire formats of our own, litellm for the rest."""
