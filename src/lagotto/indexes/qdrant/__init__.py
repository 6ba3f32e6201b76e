"""Text and vector index on a Qdrant server or cluster, for bases that outgrow one machine.

`client.py` reads the address, asks the server and translates its errors. `driver.py` has the calls
of a RemoteIndex and makes that of vectors, `text.py` has the text index.
"""

from lagotto.errors import missing_package

with missing_package("an index on Qdrant", "qdrant"):
    import qdrant_client  # noqa: F401 all modules here need it
