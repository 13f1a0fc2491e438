"""Open-loop load on an engine: trials, rates, files, page and command."""
