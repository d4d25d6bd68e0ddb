//! The program of the kafka crate for the client matrix; tests/compat/README.md says what it has to
//! do. The crate speaks the protocol of Kafka 0.8.2: all that is read is read uncommitted. Of what
//! comes in one answer it drops the plain messages before a compressed one, so one codec has to do.

use std::time::Duration;

use harness::{text, without, Env, Failure, Found, Scenario};
use kafka::client::{
    Compression, FetchOffset, FetchPartition, GroupOffsetStorage, KafkaClient, ProduceMessage,
    RequiredAcks,
};
use serde_json::Value;

const TIMEOUT: Duration = Duration::from_secs(10);
/// Kafka answers a fetch at a transaction marker with nothing; more than one may follow another.
const FETCHES_IN_VAIN: i32 = 5;

fn main() {
    let committed = "the kafka crate has no read_committed";
    let scenarios: [(&str, Box<Scenario>); 8] = [
        ("produce", Box::new(produce)),
        (
            "transactions",
            without("the kafka crate has no transactions"),
        ),
        ("holes", without(committed)),
        ("holes_inside", without(committed)),
        ("commit", without(committed)),
        (
            "group",
            without("the kafka crate has no rebalances, only offsets of a group"),
        ),
        ("eos", without("the kafka crate has no transactions")),
        ("legacy", Box::new(legacy)),
    ];
    harness::main(&scenarios);
}

fn connect(env: &Env) -> Result<KafkaClient, Failure> {
    let mut client = KafkaClient::new(env.bootstrap.split(',').map(str::to_string).collect());
    client.set_client_id("kafka-rust".to_string());
    client.set_fetch_max_wait_time(Duration::from_millis(100))?;
    client.set_fetch_max_bytes_per_partition(1 << 20);
    client.set_group_offset_storage(Some(GroupOffsetStorage::Kafka));
    client.load_metadata_all()?;
    Ok(client)
}

fn produce(env: &Env, found: &mut Found) -> Result<(), Failure> {
    let mut client = connect(env)?;
    let topic = env.topic("produce");
    let records = env.workload["produce"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    client.set_compression(Compression::GZIP);
    let messages = records.iter().enumerate().map(|(index, record)| {
        let (key, value) = (bytes(&record["key"]), bytes(&record["value"]));
        ProduceMessage::new(&topic, (index % 3) as i32, key, value)
    });
    let confirmed = client.produce_messages(RequiredAcks::All, TIMEOUT, messages)?;
    for partition in confirmed.iter().flat_map(|topic| &topic.partition_confirms) {
        if let Err(code) = partition.offset {
            return Err(Failure::Failed(format!(
                "partition {}: {code:?}",
                partition.partition
            )));
        }
    }
    found.fact("codecs", vec!["gzip"]);
    (0..3).try_for_each(|partition| read(env, &mut client, "produce", partition, found).map(drop))
}

fn bytes(value: &Value) -> Option<&[u8]> {
    value.as_str().map(str::as_bytes)
}

/// Reads a partition from the start until nothing more comes; the offset behind the last message.
fn read(
    env: &Env,
    client: &mut KafkaClient,
    name: &str,
    partition: i32,
    found: &mut Found,
) -> Result<i64, Failure> {
    let topic = env.topic(name);
    let mut next = earliest(client, &topic, partition)?;
    let mut in_vain = 0;
    while in_vain < FETCHES_IN_VAIN {
        env.in_time()?;
        in_vain += 1;
        let from = next;
        for response in client.fetch_messages([FetchPartition::new(&topic, partition, from)])? {
            for data in response
                .topics()
                .iter()
                .flat_map(|topic| topic.partitions())
            {
                let data = data
                    .data()
                    .map_err(|error| Failure::Failed(error.to_string()))?;
                for message in data
                    .messages()
                    .iter()
                    .filter(|message| message.offset >= from)
                {
                    found.add(name, partition, line(message.key, message.value));
                    (next, in_vain) = (message.offset + 1, 0);
                }
            }
        }
    }
    Ok(next)
}

fn earliest(client: &mut KafkaClient, topic: &str, partition: i32) -> Result<i64, Failure> {
    let offsets = client.fetch_offsets(&[topic], FetchOffset::Earliest)?;
    let found = offsets[topic]
        .iter()
        .find(|found| found.partition == partition);
    found.map_or(Ok(0), |found| Ok(found.offset))
}

/// The crate does not tell null from empty.
fn line(key: &[u8], value: &[u8]) -> String {
    let known = |bytes: &'_ [u8]| (!bytes.is_empty()).then(|| bytes.to_vec());
    text(
        known(key).as_deref(),
        known(value).as_deref(),
        std::iter::empty(),
    )
}

/// Reads `mixed`, whose batches become message sets for it, and keeps its place as a group.
fn legacy(env: &Env, found: &mut Found) -> Result<(), Failure> {
    let mut client = connect(env)?;
    let next = read(env, &mut client, "mixed", 0, found)?;
    let (group, topic) = (env.topic("legacy"), env.topic("mixed"));
    client.commit_offset(&group, &topic, 0, next)?;
    let committed = client.fetch_group_topic_offset(&group, &topic)?;
    found.fact("kept", committed.iter().any(|found| found.offset == next));
    Ok(())
}
