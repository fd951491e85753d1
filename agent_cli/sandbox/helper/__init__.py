"""Code that runs in other processes: reaper, supervisor, spawn."""
