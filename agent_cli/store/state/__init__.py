"""Small files of the state folder: grants, learned limits, daily spend, known secrets."""
