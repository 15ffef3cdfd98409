-- Ten questions that operators ask, to the tables that `group-coordinator write-history` writes.
--
-- For Spark SQL, DataFusion, Trino and the like. In a notebook:
--
--   for name in ("events", "transitions", "joins", "generations", "offsets", "membership", "assignments"):
--       spark.read.format("delta").load(f"{history_path}/{name}").createOrReplaceTempView(name)
--
-- Times are UTC. Tables are partitioned by `day`: naming it saves reading the rest. `group-coordinator history
-- GROUP ... --sql` shows more elaborate queries for one group and any time.

-- 1. Who owned partition 3 of orders at 14:05?
SELECT m.client_id, a.member_id, a.generation_id, a.since, a.until
FROM assignments a JOIN membership m ON m.group_id = a.group_id AND m.member_id = a.member_id
WHERE a.group_id = 'orders' AND a.topic = 'orders' AND a.partition = 3
  AND a.since <= TIMESTAMP '2026-01-31 14:05:00+00:00'
  AND (a.until IS NULL OR a.until > TIMESTAMP '2026-01-31 14:05:00+00:00');

-- 2. Why were there so many rebalances last night?
SELECT at, cause, reason
FROM transitions
WHERE group_id = 'orders' AND to_state = 'PreparingRebalance'
  AND day BETWEEN DATE '2026-01-30' AND DATE '2026-01-31'
  AND at BETWEEN TIMESTAMP '2026-01-30 22:00:00+00:00' AND TIMESTAMP '2026-01-31 06:00:00+00:00'
ORDER BY at, log_offset;

-- 3. Which member slows every join phase?
SELECT client_id, count(*) AS joins, avg(join_phase_ms) AS average_ms, max(join_phase_ms) AS longest_ms
FROM joins
WHERE group_id = 'orders'
GROUP BY client_id
ORDER BY average_ms DESC, client_id;

-- 4. How long was each group not Stable, day by day, and what had caused it?
SELECT group_id, day, cause, count(*) AS rebalances, sum(rebalance_ms) AS total_ms
FROM transitions
WHERE rebalance_ms IS NOT NULL
GROUP BY group_id, day, cause
ORDER BY total_ms DESC, group_id, day, cause;

-- 5. Who fell silent, and how often?
SELECT group_id, client_id, reason, count(*) AS times, max(until) AS last_time
FROM membership
WHERE reason IN ('session_expired', 'not_rejoined', 'not_synced')
GROUP BY group_id, client_id, reason
ORDER BY times DESC, group_id, client_id, reason;

-- 6. What did worker-7 own, and when?
SELECT a.topic, a.partition, a.generation_id, a.since, a.until
FROM assignments a JOIN membership m ON m.group_id = a.group_id AND m.member_id = a.member_id
WHERE m.client_id = 'worker-7'
ORDER BY a.since, a.topic, a.partition;

-- 7. Was the work spread evenly in each generation?
SELECT generation_id, min(owned) AS least, max(owned) AS most, count(*) AS owners
FROM (
  SELECT generation_id, member_id, count(*) AS owned
  FROM assignments WHERE group_id = 'orders' GROUP BY generation_id, member_id
) AS shares
GROUP BY generation_id
ORDER BY generation_id;

-- 8. Did a committed offset go back, and who did it?
SELECT at, topic, partition, before, committed_offset, client_id
FROM (
  SELECT at, topic, partition, committed_offset, client_id,
    lag(committed_offset) OVER (PARTITION BY topic, partition ORDER BY at, log_offset) AS before
  FROM offsets WHERE group_id = 'orders' AND change = 'committed'
) AS commits
WHERE committed_offset < before
ORDER BY at, topic, partition;

-- 9. Which programs start again and again?
SELECT group_id, client_id, count(*) AS lives, min(since) AS first_seen, max(since) AS last_start
FROM membership
GROUP BY group_id, client_id
HAVING count(*) > 1
ORDER BY lives DESC, group_id, client_id;

-- 10. What happened, in full?
SELECT at, event, body
FROM events
WHERE group_id = 'orders' AND day = DATE '2026-01-31'
ORDER BY at, log_offset;
