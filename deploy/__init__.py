"""What it takes to run the coordinator somewhere: jars, Java, an embedded broker."""
