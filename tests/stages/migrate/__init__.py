"""Tests of harness.stages.migrate."""
