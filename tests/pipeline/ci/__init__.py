"""Tests of harness.pipeline.ci and of the inputs that it records."""
