"""Something to work on: makes a topic if it is not there, and puts numbers into it.

python examples/produce.py --topic numbers
"""

from __future__ import annotations

import argparse

from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic
from kafka.errors import TopicAlreadyExistsError


def main(topic: str, count: int, partitions: int, bootstrap_servers: str) -> None:
    """Write the numbers below `count`."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
    try:
        admin.create_topics([NewTopic(topic, partitions, 1)])
    except TopicAlreadyExistsError:
        print(f"topic {topic} is there already, and gets more numbers")
    admin.close()
    with KafkaProducer(bootstrap_servers=bootstrap_servers) as producer:
        for number in range(count):
            producer.send(topic, str(number).encode())
        producer.flush()
    print(f"wrote {count} numbers to topic {topic}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--topic", required=True)
    parser.add_argument("--count", type=int, default=1_000)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--bootstrap-server", dest="bootstrap_servers", default="localhost:9092")
    main(**vars(parser.parse_args()))
