"""The gateway in front of models: hooks on what goes to them and on what comes back."""
