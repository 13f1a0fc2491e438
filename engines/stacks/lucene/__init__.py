"""Lucene in this process: BM25 by its own classes, reached over JPype."""
