//! What the Rust programs of the matrix have in common: the command line, the workload, and the
//! line of JSON that tells how a scenario went.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{json, Value};

const LIMIT: Duration = Duration::from_secs(30);

pub enum Failure {
    Unsupported(String),
    Failed(String),
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure::Failed(error.to_string())
    }
}

/// What a scenario read, by NAME/PARTITION, and what must be equal on both clusters.
#[derive(Default)]
pub struct Found {
    pub records: BTreeMap<String, Vec<String>>,
    pub facts: BTreeMap<String, Value>,
}

impl Found {
    pub fn add(&mut self, name: &str, partition: i32, line: String) {
        self.records
            .entry(format!("{name}/{partition}"))
            .or_default()
            .push(line);
    }

    pub fn fact(&mut self, name: &str, value: impl Into<Value>) {
        self.facts.insert(name.to_string(), value.into());
    }
}

/// What a scenario is run with.
pub struct Env {
    pub bootstrap: String,
    pub prefix: String,
    pub workload: Value,
    deadline: Instant,
}

impl Env {
    pub fn topic(&self, name: &str) -> String {
        format!("{}-{name}", self.prefix)
    }

    /// To be asked in every loop: all calls in them end by themselves.
    pub fn in_time(&self) -> Result<(), Failure> {
        if Instant::now() < self.deadline {
            return Ok(());
        }
        Err(Failure::Failed(format!("not done after {LIMIT:?}")))
    }
}

pub type Scenario = dyn Fn(&Env, &mut Found) -> Result<(), Failure>;

/// A scenario that this client cannot do.
pub fn without(reason: &'static str) -> Box<Scenario> {
    Box::new(move |_, _| Err(Failure::Unsupported(reason.to_string())))
}

/// A record as the contract writes it.
pub fn text<'a>(
    key: Option<&[u8]>,
    value: Option<&[u8]>,
    headers: impl Iterator<Item = (&'a str, Option<&'a [u8]>)>,
) -> String {
    let pairs: Vec<String> = headers.map(|(k, v)| format!("{k}:{}", show(v))).collect();
    let bar = if pairs.is_empty() { "" } else { "|" };
    format!("{}={}{bar}{}", show(key), show(value), pairs.join(","))
}

fn show(bytes: Option<&[u8]>) -> String {
    bytes.map_or("~".to_string(), |bytes| {
        String::from_utf8_lossy(bytes).into_owned()
    })
}

/// Runs the scenarios in turn and prints the line of each when it is done.
pub fn main(scenarios: &[(&str, Box<Scenario>)]) {
    let words: Vec<String> = std::env::args().collect();
    let option = |name: &str| {
        let at = words.iter().position(|word| word == name)?;
        words.get(at + 1).cloned()
    };
    let required = |name: &str| option(name).unwrap_or_else(|| panic!("{name} is missing"));
    let file = required("--workload");
    let content = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{file}: {e}"));
    let mut env = Env {
        bootstrap: required("--bootstrap"),
        prefix: required("--prefix"),
        workload: serde_json::from_str(&content).unwrap_or_else(|e| panic!("{file}: {e}")),
        deadline: Instant::now(),
    };
    let only = option("--only");
    for (name, scenario) in scenarios {
        if only.as_deref().is_none_or(|only| only == *name) {
            env.deadline = Instant::now() + LIMIT;
            println!("{}", run(name, scenario, &env));
        }
    }
}

fn run(name: &str, scenario: &Scenario, env: &Env) -> Value {
    let began = Instant::now();
    let mut found = Found::default();
    let outcome = scenario(env, &mut found);
    eprintln!("{name} took {:?}", began.elapsed());
    match outcome {
        Ok(()) => {
            json!({"scenario": name, "ok": true, "records": found.records, "facts": found.facts})
        }
        Err(Failure::Unsupported(reason)) => json!({"scenario": name, "unsupported": reason}),
        Err(Failure::Failed(error)) => {
            json!({"scenario": name, "ok": false, "error": error, "records": {}})
        }
    }
}
