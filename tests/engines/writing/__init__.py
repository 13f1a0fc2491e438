"""Search in notes, part by part."""
