"""Tests of the stack over Typesense."""
