"""The bodies of runs that are not graphs: our own loop, a Python function, a program."""
