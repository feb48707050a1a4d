"""Facts about a graph; nothing here changes one."""
