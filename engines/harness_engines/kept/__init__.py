"""Folders kept searchable: an index that follows a folder of files, change by change."""
