"""A runner: a process that carries out runs of a server which may be anywhere."""
