//! What functions say: a line of JSON for each event, on standard output, where
//! CloudWatch Logs can search it by field (`run`, `cell`, `shard`, …).
//!
//! The SDK and the TLS library may say what they send when they are asked for
//! their innermost details, and that holds credentials. So whatever `RUST_LOG`
//! says, crates that are not ours say warnings at most.

use std::fmt;
use std::io::Write;

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

/// Crates whose words may be heard in detail.
const OURS: [&str; 4] = ["fabric_", "worker", "planner", "conductor"];

/// Begins to log, at the levels that `RUST_LOG` asks for, else at `info`. Called
/// a second time it does nothing.
pub fn start() {
    let asked = std::env::var("RUST_LOG").unwrap_or_default();
    let layer = Lines(std::io::stdout).with_filter(Filter::new(&asked));
    let _ = tracing_subscriber::registry().with(layer).try_init();
}

/// What `RUST_LOG` asks for, within what may be told.
struct Filter(Targets);

impl Filter {
    fn new(asked: &str) -> Filter {
        let asked = match asked.trim() {
            "" => "info",
            asked => asked,
        };
        let default = Targets::new().with_default(LevelFilter::INFO);
        Filter(asked.parse().unwrap_or(default))
    }

    fn allows(&self, metadata: &Metadata<'_>) -> bool {
        let target = metadata.target();
        let ours = OURS.iter().any(|ours| {
            let rest = target.strip_prefix(ours);
            rest.is_some_and(|rest| ours.ends_with('_') || rest.is_empty() || rest.starts_with(':'))
        });
        // The runtime says again what `function` has said of a failure.
        if target.starts_with("lambda_runtime::layers") {
            return false;
        }
        let may = ours || *metadata.level() <= tracing::Level::WARN;
        may && self.0.would_enable(target, metadata.level())
    }
}

impl<S: Subscriber> tracing_subscriber::layer::Filter<S> for Filter {
    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        self.allows(metadata)
    }
}

/// Writes events as lines.
struct Lines<W>(W);

impl<S, W, M> Layer<S> for Lines<M>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    M: Fn() -> W + 'static,
    W: Write,
{
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        let mut fields = Fields::default();
        fields.text("level", metadata.level().as_str());
        event.record(&mut fields);
        fields.text("target", metadata.target());
        let line = Value::Object(fields.0);
        // There is nobody to tell that telling failed.
        let _ = writeln!((self.0)(), "{line}");
    }
}

#[derive(Default)]
struct Fields(Map<String, Value>);

impl Fields {
    fn text(&mut self, name: &str, value: &str) {
        self.0.insert(name.to_owned(), Value::from(value));
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.text(field.name(), &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.text(field.name(), value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name().to_owned(), Value::from(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.insert(field.name().to_owned(), Value::from(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.0.insert(field.name().to_owned(), Value::from(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.insert(field.name().to_owned(), Value::from(value));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Paper(Arc<Mutex<Vec<u8>>>);

    impl Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn said(asked: &str, say: impl FnOnce()) -> Vec<Value> {
        let paper = Paper::default();
        let copy = paper.clone();
        let layer = Lines(move || copy.clone()).with_filter(Filter::new(asked));
        let subscriber = tracing_subscriber::registry().with(layer);
        tracing::subscriber::with_default(subscriber, say);
        let text = String::from_utf8(paper.0.lock().unwrap().clone()).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    #[test]
    fn an_event_is_a_line_with_its_fields() {
        let lines = said("", || {
            tracing::info!(target: "fabric_fleet::handler", run = %"r-1", cell = "A", n = 3, "done:\nran");
            tracing::debug!(target: "fabric_fleet::handler", "not asked for");
        });
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0]["level"], "INFO");
        assert_eq!(lines[0]["message"], "done:\nran");
        assert_eq!(lines[0]["run"], "r-1");
        assert_eq!(lines[0]["cell"], "A");
        assert_eq!(lines[0]["n"], 3);
    }

    #[test]
    fn other_crates_tell_no_details_whatever_is_asked_for() {
        let lines = said("trace", || {
            tracing::trace!(target: "aws_sigv4::http_request", "x-amz-security-token:MARKED");
            tracing::debug!(target: "aws_runtime::auth", "MARKED");
            tracing::info!(target: "workers_of_others", "MARKED");
            tracing::warn!(target: "hyper", "a warning");
            tracing::trace!(target: "fabric_cloud::table", "ours");
            tracing::trace!(target: "worker", "ours");
        });
        let messages: Vec<&Value> = lines.iter().map(|line| &line["message"]).collect();
        assert_eq!(messages, ["a warning", "ours", "ours"]);
    }
}
