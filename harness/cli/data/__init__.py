"""Commands that bring data in: collections, query logs, exports of other tools."""
