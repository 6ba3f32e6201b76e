"""Nearest vectors: exact while that is quick, a sketch with exact scores beyond.

ranking      exact scores and their order
places       where a key's row is
sketch       one bit per dimension
segment      rows that never change, and the search in them
tail         rows added since the base was written
snapshot     base and tail at one moment
generations  the base on disk
matrix       VectorMatrix: the rows of an index in memory, and their changes
index        EmbeddedVectorIndex: a VectorMatrix that follows a change log
"""

from lagotto.indexes.vectors.matrix import VectorMatrix
from lagotto.indexes.vectors.snapshot import MatrixSnapshot
from lagotto.indexes.vectors.tuning import Tuning

__all__ = ["MatrixSnapshot", "Tuning", "VectorMatrix"]
