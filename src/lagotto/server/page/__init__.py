"""The page for people: static files that call the API of the server that they come from.

They hold no data and need no key; the page asks for one where the API does.
"""

from lagotto.server.page.routes import mounted_page

__all__ = ["mounted_page"]
