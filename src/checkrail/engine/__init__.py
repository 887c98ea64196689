"""The hook engine: points, decisions, lanes, records. Standard library only, and no I/O."""
