"""Tests of engines.agent_mail.tantivy."""
