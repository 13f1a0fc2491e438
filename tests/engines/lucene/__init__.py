"""Tests of the stack over Lucene."""
