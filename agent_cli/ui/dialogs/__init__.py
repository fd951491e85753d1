"""Dialogs as pure state: keys in, answers out."""
