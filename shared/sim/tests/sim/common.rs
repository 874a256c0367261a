//! What all tests need: a simulated cluster, a driver on it, and a client that
//! speaks in bare messages.

use std::time::Duration;

use bytes::BytesMut;
use clock::Clock;
use postgres_protocol::message::backend::{ErrorFields, Message};
use postgres_protocol::message::frontend;
use sim::{Cluster, FaultPlan, Pipe, Preset};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_postgres::fallible_iterator::FallibleIterator;
use tokio_postgres::{Client, NoTls};

/// Runs a test in simulated time.
pub fn simulated<T>(test: impl AsyncFnOnce(Clock) -> T) -> T {
    let runtime = clock::simulated_runtime().unwrap();
    runtime.block_on(async { test(Clock::simulated()).await })
}

pub fn preset(name: &str) -> &'static Preset {
    sim::preset(name).unwrap()
}

/// A preset whose service times are the same every time: its medians.
pub fn steady(name: &str) -> Preset {
    let mut preset = preset(name).clone();
    for region in &mut preset.regions {
        for spread in [
            &mut region.read,
            &mut region.write,
            &mut region.commit_read_only,
            &mut region.commit,
            &mut region.ddl,
        ] {
            spread.p99_us = spread.p50_us;
        }
    }
    preset
}

/// A cluster of a preset with medians for service times, and faults.
pub fn cluster(name: &str, faults: FaultPlan, clock: Clock) -> Cluster {
    faults.check(preset(name).regions.len()).unwrap();
    Cluster::new(&steady(name), 1, faults, clock)
}

/// A driver's session through a pipe.
pub async fn connect(cluster: &Cluster, endpoint: usize) -> Client {
    try_connect(cluster, endpoint).await.unwrap()
}

pub async fn try_connect(
    cluster: &Cluster,
    endpoint: usize,
) -> Result<Client, tokio_postgres::Error> {
    let pipe = cluster.dial(endpoint).unwrap();
    let mut config = tokio_postgres::Config::new();
    config.user("admin").dbname("postgres");
    let (client, connection) = config.connect_raw(pipe, NoTls).await?;
    tokio::spawn(async move {
        // How it ends, the client is told.
        let _ = connection.await;
    });
    Ok(client)
}

/// SQLSTATE and message of a driver's error.
pub fn sql_error(error: &tokio_postgres::Error) -> (String, String) {
    let error = error
        .as_db_error()
        .unwrap_or_else(|| panic!("not the database's error: {error:?}"));
    (error.code().code().to_owned(), error.message().to_owned())
}

/// How long `work` takes.
pub async fn timed<T>(clock: Clock, work: impl Future<Output = T>) -> (T, Duration) {
    let begun = clock.now();
    let out = work.await;
    (out, clock.now().since(begun))
}

/// Microseconds, for comparisons that read well.
pub fn us(span: Duration) -> u64 {
    span.as_micros().try_into().unwrap()
}

/// A client that speaks in bare messages.
pub struct Raw<S = Pipe> {
    pub stream: S,
    pub out: BytesMut,
    input: BytesMut,
}

impl Raw {
    /// A session through a pipe, logged in.
    pub async fn login(cluster: &Cluster, endpoint: usize) -> Raw {
        let mut raw = Raw::new(cluster.dial(endpoint).unwrap());
        raw.start_up(&[("user", "admin"), ("database", "postgres")]);
        let answer = raw.answers().await;
        assert_eq!(answer.last().map(String::as_str), Some("ready I"));
        raw
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Raw<S> {
    pub fn new(stream: S) -> Raw<S> {
        Raw {
            stream,
            out: BytesMut::new(),
            input: BytesMut::new(),
        }
    }

    pub fn start_up(&mut self, parameters: &[(&str, &str)]) {
        let parameters = parameters.iter().copied();
        frontend::startup_message(parameters, &mut self.out).unwrap();
    }

    pub fn query(&mut self, sql: &str) -> &mut Self {
        frontend::query(sql, &mut self.out).unwrap();
        self
    }

    pub fn parse(&mut self, name: &str, sql: &str) -> &mut Self {
        frontend::parse(name, sql, None, &mut self.out).unwrap();
        self
    }

    /// Parameters as text.
    pub fn bind(&mut self, portal: &str, statement: &str, params: &[&str]) -> &mut Self {
        let params = params.iter();
        let done = frontend::bind(
            portal,
            statement,
            None,
            params,
            |param, out| {
                out.extend_from_slice(param.as_bytes());
                Ok(postgres_protocol::IsNull::No)
            },
            None,
            &mut self.out,
        );
        assert!(done.is_ok());
        self
    }

    pub fn describe(&mut self, kind: u8, name: &str) -> &mut Self {
        frontend::describe(kind, name, &mut self.out).unwrap();
        self
    }

    pub fn execute(&mut self, portal: &str, most: i32) -> &mut Self {
        frontend::execute(portal, most, &mut self.out).unwrap();
        self
    }

    pub fn close(&mut self, kind: u8, name: &str) -> &mut Self {
        frontend::close(kind, name, &mut self.out).unwrap();
        self
    }

    pub fn flush(&mut self) -> &mut Self {
        frontend::flush(&mut self.out);
        self
    }

    pub fn sync(&mut self) -> &mut Self {
        frontend::sync(&mut self.out);
        self
    }

    /// Sends what was put together, in one flight.
    pub async fn send(&mut self) {
        let out = self.out.split();
        self.stream.write_all(&out).await.unwrap();
        self.stream.flush().await.unwrap();
    }

    /// Sends, and reads all answers up to ReadyForQuery or the end.
    pub async fn answers(&mut self) -> Vec<String> {
        self.send().await;
        self.receive().await
    }

    /// Reads all answers up to ReadyForQuery or the end.
    pub async fn receive(&mut self) -> Vec<String> {
        let mut answers = Vec::new();
        loop {
            let message = self.message().await;
            let last = message == "end" || message.starts_with("ready");
            answers.push(message);
            if last {
                return answers;
            }
        }
    }

    /// The next answer, in a line.
    pub async fn message(&mut self) -> String {
        self.reply()
            .await
            .map_or_else(|| "end".to_owned(), |reply| reply.to_string())
    }

    /// The next answer; `None` at the end.
    pub async fn reply(&mut self) -> Option<Reply> {
        loop {
            if let Some(message) = Message::parse(&mut self.input).unwrap() {
                return Some(Reply::read(message));
            }
            match self.stream.read_buf(&mut self.input).await {
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    /// Sends, and reads all answers before ReadyForQuery or the end.
    pub async fn replies(&mut self) -> Vec<Reply> {
        self.send().await;
        let mut replies = Vec::new();
        while let Some(reply) = self.reply().await {
            if matches!(reply, Reply::Ready(_)) {
                break;
            }
            replies.push(reply);
        }
        replies
    }
}

/// An answer of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Columns(Vec<(String, u32, bool)>),
    Row(Vec<Option<String>>),
    Tag(String),
    Ready(char),
    Error(Report),
    Notice(Report),
    Other(String),
}

/// An error or a notice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub severity: String,
    pub sqlstate: String,
    pub message: String,
    pub hint: String,
}

impl Reply {
    fn read(message: Message) -> Reply {
        let other = |text: &str| Reply::Other(text.to_owned());
        match message {
            Message::RowDescription(body) => {
                let columns = body.fields().map(|field| {
                    let binary = field.format() == 1;
                    Ok((field.name().to_owned(), field.type_oid(), binary))
                });
                Reply::Columns(columns.collect().unwrap())
            }
            Message::DataRow(body) => {
                let values = body.ranges().map(|range| {
                    Ok(range
                        .map(|range| String::from_utf8_lossy(&body.buffer()[range]).into_owned()))
                });
                Reply::Row(values.collect().unwrap())
            }
            Message::CommandComplete(body) => Reply::Tag(body.tag().unwrap().to_owned()),
            Message::ReadyForQuery(body) => Reply::Ready(char::from(body.status())),
            Message::ErrorResponse(body) => Reply::Error(Report::read(body.fields())),
            Message::NoticeResponse(body) => Reply::Notice(Report::read(body.fields())),
            Message::AuthenticationOk => other("authenticated"),
            Message::AuthenticationCleartextPassword => other("password?"),
            Message::ParameterStatus(body) => Reply::Other(format!(
                "{} = {}",
                body.name().unwrap(),
                body.value().unwrap()
            )),
            Message::BackendKeyData(_) => other("key"),
            Message::ParseComplete => other("parsed"),
            Message::BindComplete => other("bound"),
            Message::CloseComplete => other("closed"),
            Message::NoData => other("no data"),
            Message::EmptyQueryResponse => other("empty"),
            Message::PortalSuspended => other("suspended"),
            Message::ParameterDescription(body) => {
                let types = body.parameters().map(|oid| Ok(oid.to_string()));
                let types: Vec<_> = types.collect().unwrap();
                Reply::Other(format!("parameters [{}]", types.join(" ")))
            }
            _ => other("another message"),
        }
    }
}

impl std::fmt::Display for Reply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Reply::Columns(columns) => {
                let columns = columns.iter().map(|(name, oid, binary)| {
                    format!("{name}:{oid}{}", if *binary { " binary" } else { "" })
                });
                write!(f, "columns [{}]", columns.collect::<Vec<_>>().join(" "))
            }
            Reply::Row(values) => {
                let values = values
                    .iter()
                    .map(|value| value.as_deref().unwrap_or("null"));
                write!(f, "row [{}]", values.collect::<Vec<_>>().join(" "))
            }
            Reply::Tag(text) | Reply::Other(text) => f.write_str(text),
            Reply::Ready(status) => write!(f, "ready {status}"),
            Reply::Error(report) => write!(f, "error {report}"),
            Reply::Notice(report) => write!(f, "notice {report}"),
        }
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.severity, self.sqlstate, self.message)?;
        if !self.hint.is_empty() {
            write!(f, " (hint: {})", self.hint)?;
        }
        Ok(())
    }
}

impl Report {
    fn read(mut fields: ErrorFields<'_>) -> Report {
        let mut report = Report::default();
        while let Some(field) = fields.next().unwrap() {
            let place = match field.type_() {
                b'V' => &mut report.severity,
                b'C' => &mut report.sqlstate,
                b'M' => &mut report.message,
                b'H' => &mut report.hint,
                _ => continue,
            };
            *place = String::from_utf8(field.value_bytes().to_vec()).unwrap();
        }
        report
    }
}
