"""Xapian on servers of its own, one a shard, searched as one database."""
