//! Producers: each codec, and transactions.

use std::sync::Mutex;

use harness::{Env, Failure, Found};
use rdkafka::client::ClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::message::{DeliveryResult, Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext};
use serde_json::Value;

use crate::reading::read_all;
use crate::{config, TIMEOUT};

const CODECS: [&str; 5] = ["none", "gzip", "snappy", "lz4", "zstd"];

/// Keeps the first error of a delivery.
#[derive(Default)]
pub struct Deliveries(Mutex<Option<String>>);

impl ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, _: ()) {
        if let Err((error, _)) = result {
            self.0
                .lock()
                .unwrap()
                .get_or_insert_with(|| error.to_string());
        }
    }
}

pub fn new_producer(config: &mut ClientConfig) -> Result<BaseProducer<Deliveries>, Failure> {
    config
        .set("linger.ms", "5")
        .set("enable.idempotence", "true");
    Ok(config.create_with_context(Deliveries::default())?)
}

pub fn new_transactional(env: &Env, name: &str) -> Result<BaseProducer<Deliveries>, Failure> {
    let producer = new_producer(config(env).set("transactional.id", env.topic(name)))?;
    producer.init_transactions(TIMEOUT)?;
    Ok(producer)
}

/// Waits for what was sent to be acknowledged.
pub fn flush(producer: &BaseProducer<Deliveries>) -> Result<(), Failure> {
    producer.flush(TIMEOUT)?;
    match producer.context().0.lock().unwrap().take() {
        Some(error) => Err(Failure::Failed(error)),
        None => Ok(()),
    }
}

fn send(
    producer: &BaseProducer<Deliveries>,
    topic: &str,
    partition: i32,
    record: &Value,
) -> Result<(), Failure> {
    let headers: Vec<Value> = record["headers"].as_array().cloned().unwrap_or_default();
    let mut made = BaseRecord::<str, str>::to(topic).partition(partition);
    made.key = record["key"].as_str();
    made.payload = record["value"].as_str();
    if !headers.is_empty() {
        made = made.headers(headers.iter().fold(OwnedHeaders::new(), |all, pair| {
            let key = pair[0].as_str().unwrap_or_default();
            all.insert(Header {
                key,
                value: pair[1].as_str(),
            })
        }));
    }
    producer.send(made).map_err(|(error, _)| error.into())
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

pub fn produce(env: &Env, found: &mut Found) -> Result<(), Failure> {
    for codec in CODECS {
        let producer = new_producer(config(env).set("compression.type", codec))?;
        for (index, record) in list(&env.workload, "produce").iter().enumerate() {
            send(&producer, &env.topic("produce"), (index % 3) as i32, record)?;
        }
        flush(&producer)?;
    }
    found.fact("codecs", CODECS.to_vec());
    read_all(env, "produce", 3, found)
}

pub fn transactions(env: &Env, found: &mut Found) -> Result<(), Failure> {
    let producer = new_transactional(env, "transactions")?;
    let mut aborted = 0;
    for transaction in list(&env.workload, "transactions") {
        producer.begin_transaction()?;
        for record in list(transaction, "records") {
            let partition = record["partition"].as_i64().unwrap_or_default() as i32;
            send(&producer, &env.topic("transactions"), partition, record)?;
        }
        flush(&producer)?;
        if transaction["commit"] == true {
            producer.commit_transaction(TIMEOUT)?;
        } else {
            producer.abort_transaction(TIMEOUT)?;
            aborted += 1;
        }
    }
    found.fact("aborted", aborted);
    read_all(env, "transactions", 2, found)
}
