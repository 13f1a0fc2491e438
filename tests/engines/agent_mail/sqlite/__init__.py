"""Tests of engines.agent_mail.sqlite."""
