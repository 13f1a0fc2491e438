"""Folders kept searchable, part by part."""
