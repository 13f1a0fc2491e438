"""Chunks of documents with exact provenance: word recall, semantic ranking, late interaction."""
