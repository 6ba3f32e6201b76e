"""The same rows in other libraries, each as its documentation builds a hybrid search.

Every class is used in an environment of its own, which has only that library: it imports nothing of
Lagotto or of the other benchmarks. Started by `peers`, which says what to do in lines of JSON.
"""

from __future__ import annotations

import importlib
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"
os.environ.update(HF_HUB_OFFLINE="1", ANONYMIZED_TELEMETRY="False", HAYSTACK_TELEMETRY_ENABLED="0")

Rows = list[int]


def library(name: str) -> Any:
    """A module that only this environment has."""
    return importlib.import_module(name)


class Peer:
    """Rows of text with a vector and a group; what a library can't do is not defined."""

    requires: tuple[str, ...] = ()
    """What pip installs."""

    def __init__(self, folder: Path, data: dict[str, Any]) -> None:
        self.folder, self.data = folder, data

    def rows(self) -> Iterator[tuple[int, str, Any, int]]:
        """Each row with its text, vector and group."""
        columns = zip(self.data["texts"], self.data["vectors"], self.data["groups"], strict=True)
        for row, (text, vector, group) in enumerate(columns):
            yield row, text, vector, int(group)

    def build(self) -> None:
        """Everything into a new index on the disk."""
        raise NotImplementedError

    def open(self) -> None:
        """What a new process does before its first search."""

    def hybrid(self, query: str, vector: Any, k: int, group: int | None = None) -> Rows:
        """The best rows by words and vectors, of one group if it is given."""
        raise NotImplementedError

    def dense(self, vector: Any, k: int) -> Rows:
        """The nearest rows by their vectors."""
        raise NotImplementedError

    def add(self, row: int, text: str, vector: Any) -> None:
        """One more row, to be found by the next search."""
        raise NotImplementedError

    def server_seconds(self) -> float:
        """CPU time of a server beside this process."""
        return 0.0

    def close(self) -> None:
        """End what was started."""


class Lagotto(Peer):
    def _base(self) -> Any:
        from lagotto import KnowledgeBase
        from lagotto.embedders import ApproximateTokenizer, EmbedderInfo

        vectors = dict(zip(self.data["texts"], self.data["vectors"], strict=True))

        first = self.data["vectors"][0]  # for windows of the few rows with more tokens

        class Vectors:
            info = EmbedderInfo(
                model_id="all-MiniLM-L6-v2", dimension=384, max_tokens=256, alphabets=("LATIN",)
            )
            tokenizer = ApproximateTokenizer()

            async def embed(self, texts: Any, *, role: str) -> Any:
                import numpy as np

                return np.array([vectors.get(text, first) for text in texts], np.float32).reshape(
                    -1, 384
                )

            async def close(self) -> None:
                """Nothing is held."""

        self._vectors = vectors
        return KnowledgeBase(str(self.folder / "base.db"), embedder=Vectors())

    def build(self) -> None:
        from lagotto import Document

        documents = (
            Document(id=str(row), text=text, metadata={"group": group})
            for row, text, _, group in self.rows()
        )
        with self._base() as base:
            while batch := list(islice(documents, 5000)):
                base.add(*batch)

    def open(self) -> None:
        self._open = self._base()

    def hybrid(self, query: str, vector: Any, k: int, group: int | None = None) -> Rows:
        filters = None if group is None else {"group": group}
        hits = self._open.retrieve(query, query_vector=vector, top_k=k, filters=filters)
        return [int(hit.document_id) for hit in hits]

    def dense(self, vector: Any, k: int) -> Rows:
        hits = self._open.retrieve("x", query_vector=vector, top_k=k, mode="semantic")
        return [int(hit.document_id) for hit in hits]

    def add(self, row: int, text: str, vector: Any) -> None:
        from lagotto import Document

        self._vectors[text] = vector
        self._open.add(Document(id=str(row), text=text, metadata={"group": 0}))

    def close(self) -> None:
        self._open.close()


def fused(*lists: Rows, k: int) -> Rows:
    """Reciprocal rank fusion."""
    scores: dict[int, float] = {}
    for rows in lists:
        for rank, row in enumerate(rows, 1):
            scores[row] = scores.get(row, 0.0) + 1 / (60 + rank)
    return sorted(scores, key=scores.__getitem__, reverse=True)[:k]


class ByHand(Peer):
    """tantivy for words, usearch for vectors, RRF: what an expert writes in an afternoon."""

    requires = ("numpy>=2", "tantivy==0.26.0", "usearch==2.26.6")

    def _index(self) -> Any:
        tantivy = library("tantivy")
        schema = tantivy.SchemaBuilder()
        schema.add_text_field("text", stored=False, tokenizer_name="en_stem")
        schema.add_unsigned_field("row", stored=True, indexed=True, fast=True)
        schema.add_unsigned_field("group", stored=False, indexed=True, fast=True)
        (self.folder / "text").mkdir(exist_ok=True)
        return tantivy.Index(schema.build(), path=str(self.folder / "text"))

    def _document(self, row: int, text: str, group: int) -> Any:
        document = library("tantivy").Document()
        document.add_text("text", text)
        document.add_unsigned("row", row)
        document.add_unsigned("group", group)
        return document

    def build(self) -> None:
        index = self._index()
        writer = index.writer(100_000_000, 1)
        for row, text, _, group in self.rows():
            writer.add_document(self._document(row, text, group))
        writer.commit()
        writer.wait_merging_threads()
        numpy = library("numpy")
        vectors = library("usearch.index").Index(ndim=384, metric="cos", dtype="f16")
        vectors.add(numpy.arange(len(self.data["texts"])), self.data["vectors"], threads=1)
        vectors.save(str(self.folder / "vectors"))
        numpy.save(self.folder / "rows.npy", self.data["vectors"])

    def open(self) -> None:
        numpy = library("numpy")
        self._text = self._index()
        self._searcher = self._text.searcher()
        self._vectors = library("usearch.index").Index(ndim=384, metric="cos", dtype="f16")
        self._vectors.load(str(self.folder / "vectors"))
        self._rows = numpy.load(self.folder / "rows.npy", mmap_mode="r")
        self._groups = self.data["groups"]

    def hybrid(self, query: str, vector: Any, k: int, group: int | None = None) -> Rows:
        tantivy = library("tantivy")
        words = " ".join(re.findall(r"\w+", query)) or "x"
        wanted = self._text.parse_query(words, ["text"])
        if group is not None:
            term = tantivy.Query.term_query(self._text.schema, "group", group)
            must = tantivy.Occur.Must
            wanted = tantivy.Query.boolean_query([(must, wanted), (must, term)])
        hits = self._searcher.search(wanted, 100).hits
        by_words = [self._searcher.doc(address)["row"][0] for _, address in hits]
        return fused(by_words, self._near(vector, 100, group), k=k)

    def _near(self, vector: Any, k: int, group: int | None) -> Rows:
        if group is None:
            return [int(key) for key in self._vectors.search(vector, k, threads=1).keys]
        numpy = library("numpy")
        rows = numpy.flatnonzero(self._groups == group)
        best = numpy.argsort(-(self._rows[rows] @ vector))[:k]
        return [int(row) for row in rows[best]]

    def dense(self, vector: Any, k: int) -> Rows:
        return self._near(vector, k, None)

    def add(self, row: int, text: str, vector: Any) -> None:
        writer = self._text.writer(15_000_000, 1)
        writer.add_document(self._document(row, text, 0))
        writer.commit()
        self._text.reload()
        self._searcher = self._text.searcher()
        self._vectors.add(row, vector)
        self._vectors.save(str(self.folder / "vectors"))


class LanceDB(Peer):
    requires = ("lancedb==0.40.0", "numpy>=2", "pandas")
    approximate = False

    def build(self) -> None:
        database = library("lancedb").connect(str(self.folder))
        names = ("row", "text", "vector", "group")
        rows = [dict(zip(names, row, strict=True)) for row in self.rows()]
        table = database.create_table("rows", rows)
        table.create_fts_index("text")
        table.create_scalar_index("group")
        if self.approximate:
            table.create_index(metric="cosine")

    def open(self) -> None:
        self._table = library("lancedb").connect(str(self.folder)).open_table("rows")

    def hybrid(self, query: str, vector: Any, k: int, group: int | None = None) -> Rows:
        words = " ".join(re.findall(r"\w+", query))
        search = self._table.search(query_type="hybrid").vector(vector).text(words)
        search = search.distance_type("cosine").limit(k)
        if group is not None:
            search = search.where(f"`group` = {group}", prefilter=True)
        return [int(row) for row in search.to_arrow()["row"].to_pylist()]

    def dense(self, vector: Any, k: int) -> Rows:
        found = self._table.search(vector).distance_type("cosine").limit(k).to_arrow()
        return [int(row) for row in found["row"].to_pylist()]

    def add(self, row: int, text: str, vector: Any) -> None:
        self._table.add([{"row": row, "text": text, "vector": vector, "group": 0}])


class LanceDBApproximate(LanceDB):
    """With the vector index that its `create_index` makes by default (IVF_PQ)."""

    approximate = True


class Txtai(Peer):
    requires = ("torch==2.13.0", "txtai==9.14.0")

    def _embeddings(self) -> Any:
        vectors = dict(zip(self.data["texts"], self.data["vectors"], strict=True))
        vectors |= dict(zip(self.data["queries"], self.data["query_vectors"], strict=True))
        self._known = vectors
        numpy = library("numpy")

        def transform(texts: Any) -> Any:
            return numpy.array([vectors[text] for text in texts], numpy.float32)

        settings = {"method": "external", "transform": transform, "content": True}
        return library("txtai").Embeddings(**settings, hybrid=True)

    def build(self) -> None:
        embeddings = self._embeddings()
        embeddings.index(
            (row, {"text": text, "group": group}, None) for row, text, _, group in self.rows()
        )
        transform = embeddings.config.pop("transform")
        embeddings.save(str(self.folder / "index"))
        embeddings.config["transform"] = transform

    def open(self) -> None:
        fresh = self._embeddings()
        transform = fresh.config["transform"]
        self._index = library("txtai").Embeddings()
        self._index.load(str(self.folder / "index"), config={"transform": transform})

    def hybrid(self, query: str, vector: Any, k: int, group: int | None = None) -> Rows:
        where = "" if group is None else f" and group = {group}"
        found = self._index.search(
            f"select id from txtai where similar(:q){where} limit {k}", parameters={"q": query}
        )
        return [int(hit["id"]) for hit in found]

    def dense(self, vector: Any, k: int) -> Rows:
        return [int(row) for row, _ in self._index.ann.search(vector.reshape(1, -1), k)[0]]

    def add(self, row: int, text: str, vector: Any) -> None:
        self._known[text] = vector
        self._index.upsert([(row, {"text": text, "group": 0}, None)])


class Chroma(Peer):
    """Vectors only: its local store has no hybrid search."""

    requires = ("chromadb==1.5.9",)

    def _collection(self) -> Any:
        client = library("chromadb").PersistentClient(path=str(self.folder))
        space = {"hnsw:space": "cosine"}
        return client.get_or_create_collection("rows", metadata=space, embedding_function=None)

    def build(self) -> None:
        collection = self._collection()
        for start in range(0, len(self.data["texts"]), 5000):
            batch = slice(start, start + 5000)
            collection.add(
                ids=[str(start + at) for at in range(len(self.data["texts"][batch]))],
                documents=self.data["texts"][batch],
                embeddings=self.data["vectors"][batch],
                metadatas=[{"group": int(group)} for group in self.data["groups"][batch]],
            )

    def open(self) -> None:
        self._rows = self._collection()

    def hybrid(self, query: str, vector: Any, k: int, group: int | None = None) -> Rows:
        where = None if group is None else {"group": group}
        include = ["documents"]
        found = self._rows.query(
            query_embeddings=[vector], n_results=k, where=where, include=include
        )
        return [int(row) for row in found["ids"][0]]

    def dense(self, vector: Any, k: int) -> Rows:
        return self.hybrid("", vector, k)

    def add(self, row: int, text: str, vector: Any) -> None:
        where = [{"group": 0}]
        self._rows.add(ids=[str(row)], documents=[text], embeddings=[vector], metadatas=where)


class Haystack(Peer):
    requires = ("haystack-ai==3.4.0", "numpy>=2")

    def build(self) -> None:
        document = library("haystack").Document
        store = library("haystack.document_stores.in_memory").InMemoryDocumentStore(
            embedding_similarity_function="cosine"
        )
        store.write_documents(
            [
                document(
                    id=str(row), content=text, embedding=vector.tolist(), meta={"group": group}
                )
                for row, text, vector, group in self.rows()
            ]
        )
        store.save_to_disk(str(self.folder / "store.json"))

    def open(self) -> None:
        in_memory = library("haystack.components.retrievers.in_memory")
        stores = library("haystack.document_stores.in_memory")
        self._store = stores.InMemoryDocumentStore.load_from_disk(str(self.folder / "store.json"))
        self._words = in_memory.InMemoryBM25Retriever(self._store)
        self._near = in_memory.InMemoryEmbeddingRetriever(self._store, return_embedding=False)
        joiner = library("haystack.components.joiners").DocumentJoiner
        self._join = joiner(join_mode="reciprocal_rank_fusion")

    def hybrid(self, query: str, vector: Any, k: int, group: int | None = None) -> Rows:
        where = None
        if group is not None:
            where = {"field": "meta.group", "operator": "==", "value": group}
        words = self._words.run(query=query, top_k=k, filters=where)["documents"]
        near = self._near.run(query_embedding=vector.tolist(), top_k=k, filters=where)["documents"]
        found = self._join.run(documents=[words, near], top_k=k)["documents"]
        return [int(document.id) for document in found]

    def dense(self, vector: Any, k: int) -> Rows:
        found = self._near.run(query_embedding=vector.tolist(), top_k=k)["documents"]
        return [int(document.id) for document in found]

    def add(self, row: int, text: str, vector: Any) -> None:
        document = library("haystack").Document
        meta = {"group": 0}
        self._store.write_documents(
            [document(id=str(row), content=text, embedding=vector.tolist(), meta=meta)]
        )


class LlamaIndex(Peer):
    requires = ("llama-index-core==0.14.25", "llama-index-retrievers-bm25==0.8.0")

    def build(self) -> None:
        schema, core = library("llama_index.core.schema"), library("llama_index.core")
        nodes = [
            schema.TextNode(
                id_=str(row), text=text, embedding=vector.tolist(), metadata={"group": group}
            )
            for row, text, vector, group in self.rows()
        ]
        index = core.VectorStoreIndex(nodes, embed_model=self._model())
        index.storage_context.persist(str(self.folder / "index"))
        bm25 = library("llama_index.retrievers.bm25").BM25Retriever
        bm25.from_defaults(nodes=nodes, similarity_top_k=10).persist(str(self.folder / "words"))

    def _model(self) -> Any:
        return library("llama_index.core").MockEmbedding(embed_dim=384)

    def open(self) -> None:
        core = library("llama_index.core")
        context = core.StorageContext.from_defaults(persist_dir=str(self.folder / "index"))
        self._index = core.load_index_from_storage(context, embed_model=self._model())
        bm25 = library("llama_index.retrievers.bm25").BM25Retriever
        self._words = bm25.from_persist_dir(str(self.folder / "words"))

    def _near(self, query: str, vector: Any, k: int, filters: Any = None) -> list[Any]:
        bundle = library("llama_index.core").QueryBundle(query, embedding=vector.tolist())
        retriever = self._index.as_retriever(similarity_top_k=k, filters=filters)
        found: list[Any] = retriever.retrieve(bundle)
        return found

    def hybrid(self, query: str, vector: Any, k: int, group: int | None = None) -> Rows:
        """Its fusion retriever asks both and adds up reciprocal ranks; here without its LLM."""
        stores = library("llama_index.core.vector_stores")
        filters = None
        if group is not None:
            exact = stores.MetadataFilter(key="group", value=group)
            filters = stores.MetadataFilters(filters=[exact])
        self._words.similarity_top_k = k
        self._words.filters = filters
        words = [int(hit.node.node_id) for hit in self._words.retrieve(query)]
        near = [int(hit.node.node_id) for hit in self._near(query, vector, k, filters)]
        return fused(words, near, k=k)

    def dense(self, vector: Any, k: int) -> Rows:
        return [int(hit.node.node_id) for hit in self._near("x", vector, k)]


class LangChain(Peer):
    requires = (
        "langchain-classic==1.0.8",
        "langchain-community==0.4.2",
        "rank-bm25==0.2.2",
        "faiss-cpu==1.15.1",
    )

    def build(self) -> None:
        pairs = zip(self.data["texts"], self.data["vectors"].tolist(), strict=True)
        store = library("langchain_community.vectorstores").FAISS.from_embeddings(
            list(pairs),
            self._model(),
            metadatas=[{"row": row, "group": group} for row, _, _, group in self.rows()],
        )
        store.save_local(str(self.folder / "faiss"))
        with (self.folder / "texts").open("wb") as file:
            pickle.dump(self.data["texts"], file)

    def _model(self) -> Any:
        known = dict(zip(self.data["queries"], self.data["query_vectors"], strict=True))

        class Known(library("langchain_core.embeddings").Embeddings):  # type: ignore[misc]
            def embed_documents(self, texts: list[str]) -> list[list[float]]:
                return [known[text].tolist() for text in texts]

            def embed_query(self, text: str) -> list[float]:
                vector: list[float] = known[text].tolist()
                return vector

        return Known()

    def open(self) -> None:
        faiss = library("langchain_community.vectorstores").FAISS
        self._store = faiss.load_local(
            str(self.folder / "faiss"), self._model(), allow_dangerous_deserialization=True
        )
        bm25 = library("langchain_community.retrievers").BM25Retriever
        with (self.folder / "texts").open("rb") as file:
            texts = pickle.load(file)
        metadatas = [{"row": row, "group": group} for row, _, _, group in self.rows()]
        self._words = bm25.from_texts(texts, metadatas=metadatas)
        self._ensemble = library("langchain_classic.retrievers").EnsembleRetriever

    def hybrid(self, query: str, vector: Any, k: int, group: int | None = None) -> Rows:
        self._words.k = k
        options: dict[str, Any] = {"k": k}
        if group is not None:
            options["filter"] = {"group": group}
        near = self._store.as_retriever(search_kwargs=options)
        both = self._ensemble(retrievers=[self._words, near], weights=[0.5, 0.5])
        return [int(document.metadata["row"]) for document in both.invoke(query)][:k]

    def dense(self, vector: Any, k: int) -> Rows:
        found = self._store.similarity_search_by_vector(vector.tolist(), k=k)
        return [int(document.metadata["row"]) for document in found]


class Qdrant(Peer):
    """A server and its client: sparse vectors with its IDF, dense ones, its RRF."""

    requires = ("qdrant-client==1.20.0", "numpy>=2")

    def _start(self) -> Any:
        self._server = subprocess.Popen(
            [self.data["qdrant"]],
            cwd=self.folder,
            env={
                "QDRANT__SERVICE__HTTP_PORT": "16333",
                "QDRANT__SERVICE__GRPC_PORT": "16334",
                "QDRANT__SERVICE__HOST": "127.0.0.1",
                "QDRANT__TELEMETRY_DISABLED": "true",
                "QDRANT__LOG_LEVEL": "ERROR",
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(300):
            try:
                urllib.request.urlopen("http://127.0.0.1:16333/readyz", timeout=1)
                break
            except OSError:
                time.sleep(0.1)
        client = library("qdrant_client").QdrantClient(
            host="127.0.0.1", port=16333, grpc_port=16334, prefer_grpc=True, timeout=600
        )
        return client, library("qdrant_client.models")

    def _sparse(self, text: str, *, weighed: bool) -> Any:
        counts: dict[int, float] = {}
        for word in re.findall(r"\w+", text.lower()):
            key = int.from_bytes(word.encode()[:12].ljust(12, b"\0"), "big") % 4_294_967_291
            counts[key] = counts.get(key, 0.0) + 1
        if weighed:
            longer = 1.2 * (0.25 + 0.75 * sum(counts.values()) / 80)
            counts = {key: 2.2 * count / (count + longer) for key, count in counts.items()}
        return self._models.SparseVector(indices=list(counts), values=list(counts.values()))

    def _point(self, row: int, text: str, vector: Any, group: int) -> Any:
        vectors = {"near": vector.tolist(), "words": self._sparse(text, weighed=True)}
        payload = {"text": text, "group": group}
        return self._models.PointStruct(id=row, vector=vectors, payload=payload)

    def build(self) -> None:
        self._client, self._models = self._start()
        models = self._models
        near = models.VectorParams(size=384, distance=models.Distance.COSINE)
        words = models.SparseVectorParams(modifier=models.Modifier.IDF)
        self._client.create_collection(
            "rows", vectors_config={"near": near}, sparse_vectors_config={"words": words}
        )
        self._client.create_payload_index("rows", "group", models.PayloadSchemaType.INTEGER)
        points = (self._point(*row) for row in self.rows())
        while batch := list(islice(points, 500)):
            self._client.upsert("rows", batch, wait=True)
        while str(self._client.get_collection("rows").status.value) != "green":
            time.sleep(0.5)

    def open(self) -> None:
        self._client, self._models = self._start()

    def hybrid(self, query: str, vector: Any, k: int, group: int | None = None) -> Rows:
        models = self._models
        where = None
        if group is not None:
            exact = models.MatchValue(value=group)
            where = models.Filter(must=[models.FieldCondition(key="group", match=exact)])
        sparse = self._sparse(query, weighed=False)
        found = self._client.query_points(
            "rows",
            prefetch=[
                models.Prefetch(query=vector.tolist(), using="near", limit=100, filter=where),
                models.Prefetch(query=sparse, using="words", limit=100, filter=where),
            ],
            query=models.FusionQuery(fusion=models.Fusion.RRF),
            limit=k,
            with_payload=True,
        )
        return [int(point.id) for point in found.points]

    def dense(self, vector: Any, k: int) -> Rows:
        found = self._client.query_points("rows", query=vector.tolist(), using="near", limit=k)
        return [int(point.id) for point in found.points]

    def add(self, row: int, text: str, vector: Any) -> None:
        self._client.upsert("rows", [self._point(row, text, vector, 0)], wait=True)

    def server_seconds(self) -> float:
        fields = Path(f"/proc/{self._server.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        self._server.terminate()
        self._server.wait()


PEERS: dict[str, type[Peer]] = {
    "lagotto": Lagotto,
    "by hand": ByHand,
    "lancedb": LanceDB,
    "lancedb, IVF_PQ": LanceDBApproximate,
    "txtai": Txtai,
    "qdrant server": Qdrant,
    "chroma (vectors only)": Chroma,
    "llama-index": LlamaIndex,
    "haystack": Haystack,
    "langchain": LangChain,
}


def serve() -> None:
    """Do what the lines on stdin say, and answer each with a line."""
    numpy, (name, where) = library("numpy"), sys.argv[1:]
    shared = Path(where)
    texts = json.loads((shared / "texts.json").read_text(encoding="utf-8"))
    data = {**texts, **numpy.load(shared / "vectors.npz")}
    folder = shared / re.sub(r"\W+", "-", name)
    peer = PEERS[name](folder, data)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints is no answer
    for line in sys.stdin:
        answers.write(json.dumps(_answer(peer, json.loads(line))) + "\n")
        answers.flush()


def _answer(peer: Peer, wanted: dict[str, Any]) -> Any:
    try:
        return _done(peer, wanted)
    except NotImplementedError:
        return None


def _done(peer: Peer, wanted: dict[str, Any]) -> Any:
    kind, rows = wanted["do"], wanted.get("queries", ())
    started = time.process_time()
    if kind == "build":
        shutil.rmtree(peer.folder, ignore_errors=True)
        peer.folder.mkdir(parents=True)
        peer.build()
        spent = time.process_time() - started + peer.server_seconds()
        if isinstance(peer, Qdrant):
            peer.close()
        files = [path for path in peer.folder.rglob("*") if path.is_file()]
        return {"cpu_s": spent, "disk_mb": sum(path.stat().st_blocks for path in files) * 512 / 1e6}
    if kind == "open":
        peer.open()
        peer.hybrid(peer.data["queries"][0], peer.data["query_vectors"][0], 10)
        memory = int(re.findall(r"VmRSS:\s+(\d+)", Path("/proc/self/status").read_text())[0]) / 1024
        return {"cpu_s": time.process_time() + peer.server_seconds(), "rss_mb": memory}
    if kind == "add":
        row, text = len(peer.data["texts"]), "a newly written word"
        vector = -peer.data["query_vectors"][0]
        served = peer.server_seconds()
        peer.add(row, text, vector)
        seen = row in peer.hybrid(text, vector, 10)
        spent = time.process_time() - started + peer.server_seconds() - served
        return {"cpu_s": spent, "found": seen}
    if kind == "close":
        peer.close()
        return {}
    times: list[float] = []
    found: list[Rows] = []
    served = peer.server_seconds()
    for row in rows:
        query, vector = peer.data["queries"][row], peer.data["query_vectors"][row]
        start = time.process_time()
        if kind == "dense":
            found.append(peer.dense(vector, 10))
        else:
            found.append(peer.hybrid(query, vector, 10, wanted["group"]))
        times.append((time.process_time() - start) * 1e3)
    served = (peer.server_seconds() - served) * 1e3 / max(1, len(rows))
    return {"ms": [each + served for each in times], "rows": found}


if __name__ == "__main__":
    serve()
