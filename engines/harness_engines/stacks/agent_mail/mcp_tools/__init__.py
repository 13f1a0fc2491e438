"""The tools ``search_messages`` and ``search_messages_product`` (specification 000, section 6)."""
