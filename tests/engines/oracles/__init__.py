"""Other people's engines, asked the same: what they say is what ours must say."""
