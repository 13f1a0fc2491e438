"""Exchanges with search servers, written by hand from the vendors' documented answer formats.

Those of ``RECORDED`` were recorded from a live server.
"""

from typing import Any, NamedTuple

RECORDED = {"typesense"}
TEXT, NEW = 'red "cone"', "2025-01-01T00:00:00.5Z"


class Exchange(NamedTuple):
    """What a server answers by path, and what is sent and read."""

    search: str
    """Path of the search."""
    answers: dict[str, Any]
    sent: dict[str, Any]
    """Parts of the request, by member or parameter."""
    identity: str
    """How the identity that is read begins."""
    partial: dict[str, Any]
    """Members of an answer that is not whole; empty where the server marks none."""


COPY = {"seq_no": {"max_seq_no": 41, "local_checkpoint": 41, "global_checkpoint": 41}}
ELASTIC = {
    "/articles/_count": {"count": 2, "_shards": {"total": 1, "successful": 1, "failed": 0}},
    "/articles/_stats": {
        "_all": {}, "indices": {"articles": {"uuid": "u", "shards": {"0": [COPY]}}},
    },
    "/articles/_search": {
        "took": 3, "timed_out": False,
        "_shards": {"total": 1, "successful": 1, "skipped": 0, "failed": 0},
        "hits": {
            "total": {"value": 2, "relation": "eq"}, "max_score": 1.5,
            "hits": [
                {"_index": "articles", "_id": "a", "_score": 1.5},
                {"_index": "articles", "_id": "b", "_score": 0.5},
            ],
        },
    },
}  # fmt: skip
VERSIONS = {
    "elasticsearch": {"number": "9.1.0", "lucene_version": "10.2.2"},
    "opensearch": {"distribution": "opensearch", "number": "3.2.0"},
}
SENT: dict[str, dict[str, Any]] = {
    "": {"query": {"match": {"text": TEXT}}, "size": 2}, "-knn": {"size": 2},
}  # fmt: skip
EXCHANGES = {
    **{
        f"{name}{kind}": Exchange(
            "/articles/_search",
            {**ELASTIC, "/": {"name": "node-1", "cluster_name": "own", "version": version}},
            sent,
            f"version {version['number']}, 2 documents, generation ",
            {"timed_out": True},
        )
        for name, version in VERSIONS.items()
        for kind, sent in SENT.items()
    },
    "typesense": Exchange(
        "/collections/articles/documents/search",
        {
            "/debug": {"state": 1, "version": "0.24.1"},
            "/collections/articles": {"created_at": 1795545758, "num_documents": 2},
            "/collections/articles/documents/search": {
                "found": 2, "out_of": 2, "page": 1, "search_cutoff": False, "search_time_ms": 0,
                "hits": [
                    {"document": {"id": "a"}, "text_match": 578730123365187706},
                    {"document": {"id": "b"}, "text_match": 578730123365187697},
                ],
            },
        },
        {"q": TEXT, "per_page": "2"},
        "version 0.24.1, 2 documents, generation ",
        {"search_cutoff": True},
    ),
    "meilisearch": Exchange(
        "/indexes/articles/search",
        {
            "/version": {"commitSha": "c", "commitDate": "d", "pkgVersion": "1.16.0"},
            "/indexes/articles/stats": {"numberOfDocuments": 2, "isIndexing": False},
            "/indexes/articles": {"uid": "articles", "updatedAt": NEW, "primaryKey": "id"},
            "/indexes/articles/search": {
                "hits": [{"id": "a", "_rankingScore": 0.9}, {"id": "b", "_rankingScore": 0.4}],
                "offset": 0, "limit": 2, "estimatedTotalHits": 2, "query": "red",
            },
        },
        {"q": TEXT, "limit": 2},
        f"version 1.16.0, 2 documents, generation {NEW}",
        {},
    ),
    "solr": Exchange(
        "/solr/articles/select",
        {
            "/solr/admin/info/system": {"lucene": {"solr-spec-version": "9.9.0"}},
            "/solr/articles/admin/luke": {
                "index": {"numDocs": 2, "version": 17, "lastModified": NEW},
            },
            "/solr/articles/select": {
                "responseHeader": {"status": 0, "QTime": 1},
                "response": {
                    "numFound": 2, "start": 0, "maxScore": 1.5, "numFoundExact": True,
                    "docs": [{"id": "a", "score": 1.5}, {"id": "b", "score": 0.5}],
                },
            },
        },
        {"q": TEXT, "rows": "2", "defType": "edismax"},
        "version 9.9.0, 2 documents, generation ",
        {"responseHeader": {"status": 0, "partialResults": True}},
    ),
    "qdrant": Exchange(
        "/collections/articles/points/query",
        {
            "/": {"title": "qdrant - vector search engine", "version": "1.15.0", "commit": "c"},
            "/collections/articles": {
                "result": {"status": "green", "points_count": 2, "segments_count": 1},
                "status": "ok", "time": 0.001,
            },
            "/collections/articles/points/query": {
                "result": {
                    "points": [
                        {"id": 1, "version": 0, "score": 0.9, "payload": {"doc_id": "a"}},
                        {"id": 2, "version": 0, "score": 0.4, "payload": {"doc_id": "b"}},
                    ]
                },
                "status": "ok", "time": 0.001,
            },
        },
        {"limit": 2},
        "version 1.15.0, 2 documents, generation ",
        {"status": {"error": "timeout"}},
    ),
    "vespa": Exchange(
        "/search/",
        {
            "/ApplicationStatus": {
                "application": {
                    "vespa": {"version": "8.500.0"},
                    "meta": {"name": "own", "generation": 7, "checksum": "c"},
                },
            },
            "/search/": {
                "root": {
                    "id": "toplevel", "relevance": 1.0, "fields": {"totalCount": 2},
                    "coverage": {"coverage": 100, "documents": 2, "full": True, "nodes": 1},
                    "children": [
                        {"id": "index:own/0/a", "relevance": 1.5, "fields": {"doc_id": "a"}},
                        {"id": "index:own/0/b", "relevance": 0.5, "fields": {"doc_id": "b"}},
                    ],
                },
            },
        },
        {"query": TEXT, "hits": 2, "ranking": "bm25"},
        "version 8.500.0, 2 documents, generation ",
        {"root": {"fields": {"totalCount": 2}, "coverage": {"coverage": 50, "full": False}}},
    ),
    "algolia": Exchange(
        "/1/indexes/articles/query",
        {
            "/1/indexes": {
                "items": [
                    {"name": "others", "entries": 9, "updatedAt": "2024-01-01T00:00:00Z"},
                    {"name": "articles", "entries": 2, "updatedAt": NEW},
                ],
                "nbPages": 1,
            },
            "/1/indexes/articles/query": {
                "hits": [{"objectID": "a"}, {"objectID": "b"}], "page": 0, "nbHits": 2,
                "nbPages": 1, "hitsPerPage": 2, "processingTimeMS": 1, "query": "red",
            },
        },
        {"query": TEXT, "hitsPerPage": 2},
        f"2 documents, generation {NEW}",
        {},
    ),
}  # fmt: skip
"""By the name of the file in ``examples/http_engine/servers``."""
