"""From files to chunks with exact provenance."""
