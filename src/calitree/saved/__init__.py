"""Saved trees: the directories that `WideTable.save` makes and `calitree.open` opens.

wide.save("tree")                       # calibrated on a cluster
wide = ct.open("tree", engine="local")  # answers on a laptop without Spark
print(ct.saved.status("tree"))
ct.saved.vacuum("tree")                 # files of older versions, and of writers that were killed
"""

from calitree.saved.status import RelationStatus, Status, status
from calitree.saved.vacuum import vacuum

__all__ = ["RelationStatus", "Status", "status", "vacuum"]
