"""Who computes: the interface (`api`), and the engines that satisfy it. None knows a tree."""
