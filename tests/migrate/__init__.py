"""Tests of harness.pipeline.migrate."""
