// A member of a group with KafkaJS: node kafkajs.js ADDRESS TOPIC GROUP, until SIGTERM.
// It says on its output what it owns, reads and has committed.
const { Kafka, PartitionAssigners, logLevel } = require("kafkajs");

const [address, topic, groupId] = process.argv.slice(2);

async function main() {
  const kafka = new Kafka({ brokers: [address], logLevel: logLevel.ERROR });
  const consumer = kafka.consumer({
    groupId,
    partitionAssigners: [PartitionAssigners.roundRobin],
    sessionTimeout: 6000,
    heartbeatInterval: 500,
    maxWaitTimeInMs: 500,
  });
  let read = 0;
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    const owned = payload.memberAssignment[topic] || [];
    console.log("owns", [...owned].sort().join(" "));
  });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  await consumer.run({
    eachBatch: async ({ batch, resolveOffset, commitOffsetsIfNecessary, uncommittedOffsets }) => {
      resolveOffset(batch.lastOffset());
      await commitOffsetsIfNecessary(uncommittedOffsets());
      read += batch.messages.length;
      console.log("committed", read);
    },
  });
  process.once("SIGTERM", async () => {
    await consumer.disconnect();
    console.log("left");
  });
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
