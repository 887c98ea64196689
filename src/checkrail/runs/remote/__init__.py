"""Runs that are carried out elsewhere: by runners, which claim them over HTTP and report back."""
