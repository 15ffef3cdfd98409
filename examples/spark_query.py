"""A streaming query as a consumer group: its lag is where that of all other groups is.

The query copies a topic into a Delta table. Spark keeps its place in the checkpoint; the listener commits the
same place for the group `orders-to-delta` after each batch, which `groups --describe` and the page show.

    make run                                                       # a broker and the coordinator
    python examples/produce.py --topic orders
    KAFKA=org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0         # the versions that go with your Spark
    DELTA=io.delta:delta-spark_4.2_2.13:4.4.0
    spark-submit --packages $KAFKA,$DELTA examples/spark_query.py --topic orders --path /tmp/orders
    group-coordinator groups --describe --group orders-to-delta    # in another terminal
"""

from __future__ import annotations

import argparse

from pyspark.sql import SparkSession

from group_coordinator.spark import CommitOffsets


def main(topic: str, path: str, bootstrap_servers: str, seconds: float) -> None:
    """Copy until Ctrl-C."""
    spark = (
        SparkSession.builder.appName("orders-to-delta")
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .getOrCreate()
    )
    commits = CommitOffsets(bootstrap_servers=bootstrap_servers)
    spark.streams.addListener(commits)
    orders = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    query = (
        orders.writeStream.queryName("orders-to-delta")  # the group's name
        .format("delta")
        .option("path", path)
        .option("checkpointLocation", f"{path}/_checkpoint")
        .trigger(processingTime=f"{seconds} seconds")
        .start()
    )
    try:
        query.awaitTermination()
    finally:
        commits.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--topic", required=True)
    parser.add_argument("--path", required=True, help="of the table")
    parser.add_argument("--bootstrap-server", dest="bootstrap_servers", default="localhost:9092")
    parser.add_argument("--seconds", type=float, default=2, help="from one batch to the next")
    try:
        main(**vars(parser.parse_args()))
    except KeyboardInterrupt:
        print("stopped")
