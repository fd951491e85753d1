"""What the model can do: the registry, plug-ins, and tools of one file each."""
