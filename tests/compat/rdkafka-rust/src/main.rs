//! The program of the rdkafka crate for the client matrix; tests/compat/README.md says what it has
//! to do.

mod groups;
mod producing;
mod reading;

use std::time::Duration;

use harness::{without, Env, Scenario};
use rdkafka::config::ClientConfig;

/// Of one call; each scenario has a limit besides.
const TIMEOUT: Duration = Duration::from_secs(10);

fn config(env: &Env) -> ClientConfig {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", &env.bootstrap)
        .set("client.id", "rust-rdkafka");
    config
}

fn main() {
    let legacy = without("librdkafka writes message sets only to brokers older than 0.11");
    let scenarios: [(&str, Box<Scenario>); 8] = [
        ("produce", Box::new(producing::produce)),
        ("transactions", Box::new(producing::transactions)),
        ("holes", Box::new(reading::holes)),
        ("holes_inside", Box::new(reading::holes_inside)),
        ("commit", Box::new(groups::commit)),
        ("group", Box::new(groups::group)),
        ("eos", Box::new(groups::eos)),
        ("legacy", legacy),
    ];
    harness::main(&scenarios);
}
