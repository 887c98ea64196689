"""Connections of the web servers: uvicorn's protocols, held to limits, which it imports by name."""
