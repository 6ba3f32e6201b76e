from __future__ import annotations

from lagotto.server.endpoints import OPERATIONS


def test_an_operation_is_declared_by_its_handler() -> None:
    """The name is its id, the docstring its summary; a permalink has both of the POST."""
    known = {operation.name: operation for operation in OPERATIONS}
    assert len(known) == len(OPERATIONS)
    listed = known["listDocuments"]
    assert (listed.method, listed.path) == ("GET", "/v1/documents")
    assert listed.answer is not None
    assert listed.answer.__name__ == "ListDocumentsAnswer"
    link = known["retrieveByLink"]
    assert (link.method, link.summary) == ("GET", known["retrieve"].summary)
    assert all(operation.summary for operation in OPERATIONS)
