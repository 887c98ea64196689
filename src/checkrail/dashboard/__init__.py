"""The dashboard: pages for people on top of the server's JSON API."""
