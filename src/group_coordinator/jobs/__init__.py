"""The common part of all long-lived Spark jobs: settings, session, stopping, health, logs."""
