"""Nearest vectors: exact search in small bases, a sketch with exact scores in larger ones.

ranking      exact scores and their order
places       from keys to rows
sketch       one bit per dimension
checksums    checksums of rows on disk, compared before their first use
segment      rows that never change, and the search in them
snapshot     base and tail at one moment
generations  the base on disk
matrix       VectorMatrix: the rows of an index, and the tail added since the base was written
index        EmbeddedVectorIndex: a VectorMatrix that follows a change log
"""

from lagotto.indexes.vectors.index import VectorMatrix
from lagotto.indexes.vectors.rows import MatrixSnapshot
from lagotto.indexes.vectors.sketch import Tuning

__all__ = ["MatrixSnapshot", "Tuning", "VectorMatrix"]
