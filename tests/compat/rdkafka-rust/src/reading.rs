//! Reading partitions by assignment, up to where the consumer's position is the end.

use std::time::Duration;

use harness::{text, Env, Failure, Found};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use crate::{config, TIMEOUT};

pub const POLL: Duration = Duration::from_millis(100);
const FEEDS: [&str; 5] = ["all", "end", "middle", "mixed", "start"];

pub fn new_consumer(env: &Env, group: &str) -> Result<BaseConsumer, Failure> {
    let consumer = config(env)
        .set("group.id", env.topic(group))
        .set("enable.auto.commit", "false")
        .set("isolation.level", "read_committed")
        .set("auto.offset.reset", "earliest")
        .set("session.timeout.ms", "10000")
        .set("heartbeat.interval.ms", "300")
        .set("fetch.wait.max.ms", "100")
        .create()?;
    Ok(consumer)
}

pub fn line(message: &BorrowedMessage<'_>) -> String {
    let headers = message.headers().into_iter().flat_map(|all| all.iter());
    text(
        message.key(),
        message.payload(),
        headers.map(|header| (header.key, header.value)),
    )
}

/// Where the consumer is in a partition; None before it got anything.
pub fn position(
    consumer: &BaseConsumer,
    topic: &str,
    partition: i32,
) -> Result<Option<i64>, Failure> {
    let all = consumer.position()?;
    let offset = all
        .find_partition(topic, partition)
        .map(|found| found.offset());
    Ok(match offset {
        Some(Offset::Offset(offset)) => Some(offset),
        _ => None,
    })
}

/// Reads from an offset until the position is the end, or `keep` says false.
fn read(
    env: &Env,
    name: &str,
    partition: i32,
    from: i64,
    end: i64,
    mut keep: impl FnMut(String) -> bool,
) -> Result<(), Failure> {
    let consumer = new_consumer(env, &format!("read-{name}"))?;
    let topic = env.topic(name);
    let mut assignment = TopicPartitionList::new();
    assignment.add_partition_offset(&topic, partition, Offset::Offset(from))?;
    consumer.assign(&assignment)?;
    while position(&consumer, &topic, partition)?.unwrap_or(from) < end {
        env.in_time()?;
        if let Some(message) = consumer.poll(POLL) {
            if !keep(line(&message?)) {
                break;
            }
        }
    }
    Ok(())
}

pub fn bounds(env: &Env, name: &str, partition: i32) -> Result<(i64, i64), Failure> {
    let consumer = new_consumer(env, "bounds")?;
    Ok(consumer.fetch_watermarks(&env.topic(name), partition, TIMEOUT)?)
}

pub fn read_all(env: &Env, name: &str, partitions: i32, found: &mut Found) -> Result<(), Failure> {
    for partition in 0..partitions {
        let (start, end) = bounds(env, name, partition)?;
        read(env, name, partition, start, end, |line| {
            found.add(name, partition, line);
            true
        })?;
    }
    Ok(())
}

pub fn holes(env: &Env, found: &mut Found) -> Result<(), Failure> {
    for name in FEEDS {
        read_all(env, name, 1, found)?;
    }
    found.fact("at_end", FEEDS.to_vec());
    Ok(())
}

pub fn holes_inside(env: &Env, found: &mut Found) -> Result<(), Failure> {
    for name in ["middle", "mixed"] {
        let (start, end) = bounds(env, name, 0)?;
        let mut last = None;
        for tenth in 0..10 {
            let mut first = None;
            read(
                env,
                name,
                0,
                start + tenth * (end - start) / 10,
                end,
                |line| {
                    first = Some(line);
                    false
                },
            )?;
            if let Some(line) = first.iter().find(|_| first != last) {
                found.add(name, 0, line.clone());
            }
            last = first;
        }
    }
    Ok(())
}
