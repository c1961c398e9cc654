"""Search engines over a corpus of passages: on this machine, or behind a URL."""
