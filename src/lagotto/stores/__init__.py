"""Where documents are kept and searched. `base` holds the contract, each store its own folder."""

from lagotto.indexes.base import Finding
from lagotto.stores.base import Capabilities, Entry, Store, StoreInfo, View
from lagotto.stores.registry import create_store

__all__ = ["Capabilities", "Entry", "Finding", "Store", "StoreInfo", "View", "create_store"]
