"""Tables that improve a model: `WideTable.search`."""

from calitree.apps.search.forward_selection import search
from calitree.apps.search.leaderboard import Score, Scored, Search

__all__ = ["Score", "Scored", "Search", "search"]
