"""Other people's frameworks, held by the same hooks."""
