"""Tests of engines.agent_mail.live."""
