"""Connections of the web servers: uvicorn's protocols, held to limits."""
