//! Consumer groups: commits, a rebalance, and consume-transform-produce.

use std::collections::HashSet;

use harness::{Env, Failure, Found};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::message::Message;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use crate::producing::{flush, new_transactional, Deliveries};
use crate::reading::{bounds, line, new_consumer, position, read_all, POLL};
use crate::TIMEOUT;

fn lag(env: &Env, group: &str, name: &str) -> Result<i64, Failure> {
    let mut asked = TopicPartitionList::new();
    asked.add_partition(&env.topic(name), 0);
    let committed = new_consumer(env, group)?.committed_offsets(asked, TIMEOUT)?;
    match committed.elements()[0].offset() {
        Offset::Offset(offset) => Ok(bounds(env, name, 0)?.1 - offset),
        other => Err(Failure::Failed(format!("{group} has committed {other:?}"))),
    }
}

pub fn commit(env: &Env, found: &mut Found) -> Result<(), Failure> {
    let (_, end) = bounds(env, "mixed", 0)?;
    read_and_commit(env, found, |count, _| count == 5)?;
    read_and_commit(env, found, |_, position| position >= end)?;
    found.fact("lag", lag(env, "commit", "mixed")?);
    Ok(())
}

/// Goes on where the group is until `enough` of count and position; commits the position.
fn read_and_commit(
    env: &Env,
    found: &mut Found,
    enough: impl Fn(i32, i64) -> bool,
) -> Result<(), Failure> {
    let topic = env.topic("mixed");
    let consumer = new_consumer(env, "commit")?;
    consumer.subscribe(&[&topic])?;
    let mut count = 0;
    loop {
        env.in_time()?;
        if let Some(message) = consumer.poll(POLL) {
            found.add("mixed", 0, line(&message?));
            count += 1;
        }
        let at = position(&consumer, &topic, 0)?.unwrap_or_default();
        if enough(count, at) {
            let mut offsets = TopicPartitionList::new();
            offsets.add_partition_offset(&topic, 0, Offset::Offset(at))?;
            return Ok(consumer.commit(&offsets, CommitMode::Sync)?);
        }
    }
}

fn held(consumers: &[BaseConsumer]) -> Result<Vec<usize>, Failure> {
    consumers
        .iter()
        .map(|consumer| Ok(consumer.assignment()?.count()))
        .collect()
}

/// Polls all consumers in turn, commits, and keeps what was not seen before, until `enough`.
fn poll_all(
    env: &Env,
    consumers: &[BaseConsumer],
    seen: &mut HashSet<String>,
    found: &mut Found,
    enough: impl Fn(&[usize], usize) -> bool,
) -> Result<(), Failure> {
    while !enough(&held(consumers)?, seen.len()) {
        env.in_time()?;
        for consumer in consumers {
            let Some(message) = consumer.poll(POLL / 10) else {
                continue;
            };
            let message = message?;
            let line = line(&message);
            if seen.insert(line.clone()) {
                found.add("group", message.partition(), line);
            }
            consumer.commit_message(&message, CommitMode::Async)?;
        }
    }
    Ok(())
}

pub fn group(env: &Env, found: &mut Found) -> Result<(), Failure> {
    let topic = env.topic("group");
    let mut consumers = vec![new_consumer(env, "g")?, new_consumer(env, "g")?];
    for consumer in &consumers {
        consumer.subscribe(&[&topic])?;
    }
    let mut seen = HashSet::new();
    poll_all(env, &consumers, &mut seen, found, |held, _| held == [2, 2])?;
    found.fact("assigned", held(&consumers)?);
    poll_all(env, &consumers, &mut seen, found, |_, read| read >= 200)?;
    consumers.pop(); // dropped, it leaves the group
    poll_all(env, &consumers, &mut seen, found, |held, _| held == [4])?;
    found.fact("alone", 4);
    Ok(())
}

pub fn eos(env: &Env, found: &mut Found) -> Result<(), Failure> {
    let topic = env.topic("input");
    let (_, end) = bounds(env, "input", 0)?;
    let producer = new_transactional(env, "eos")?;
    let consumer = new_consumer(env, "eos")?;
    consumer.subscribe(&[&topic])?;
    let (mut done, mut at) = (0, 0);
    while at < end {
        let mut batch = Vec::new();
        while batch.len() < 10 && at < end {
            env.in_time()?;
            if let Some(message) = consumer.poll(POLL) {
                let message = message?;
                let value = String::from_utf8_lossy(message.payload().unwrap_or_default());
                batch.push((
                    message.key().unwrap_or_default().to_vec(),
                    value.to_uppercase(),
                ));
            }
            at = position(&consumer, &topic, 0)?.unwrap_or_default();
        }
        if done == 1 {
            transform(env, &producer, &consumer, &batch, at, false)?;
        }
        transform(env, &producer, &consumer, &batch, at, true)?;
        done += 1;
    }
    found.fact("committed", lag(env, "eos", "input")?);
    read_all(env, "output", 1, found)
}

/// Writes ten records and the offset behind them in one transaction.
fn transform(
    env: &Env,
    producer: &BaseProducer<Deliveries>,
    consumer: &BaseConsumer,
    batch: &[(Vec<u8>, String)],
    at: i64,
    commit: bool,
) -> Result<(), Failure> {
    producer.begin_transaction()?;
    let output = env.topic("output");
    for (key, value) in batch {
        let record = BaseRecord::to(&output).partition(0).key(key).payload(value);
        producer.send(record).map_err(|(error, _)| error)?;
    }
    flush(producer)?;
    let mut offsets = TopicPartitionList::new();
    offsets.add_partition_offset(&env.topic("input"), 0, Offset::Offset(at))?;
    let Some(member) = consumer.group_metadata() else {
        return Err(Failure::Failed("the consumer has no group".to_string()));
    };
    producer.send_offsets_to_transaction(&offsets, &member, TIMEOUT)?;
    if commit {
        return Ok(producer.commit_transaction(TIMEOUT)?);
    }
    Ok(producer.abort_transaction(TIMEOUT)?)
}
