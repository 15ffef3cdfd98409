"""How a long-lived Spark job runs here, whatever it does: settings, session, stopping, health, logs."""
