"""Tests of engines.agent_mail.pipeline."""
