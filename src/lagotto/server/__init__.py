"""A base over HTTP: search, documents, tasks and models, for programs in any language.

Needs the extra `lagotto[server]`. `lagotto serve` runs it; `create_app` makes the ASGI application.
"""
