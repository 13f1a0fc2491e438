"""Typesense: a collection that every node of a cluster holds, started here or run by others."""
