"""Everything that running the coordinator takes: jars, Java, an embedded broker."""
