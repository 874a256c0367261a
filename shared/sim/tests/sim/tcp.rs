//! Over TCP in real time: psql, pgbench, TLS and tokens.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use sim::serve::{ServeError, ServeOptions, Served, Servers};
use sim::{Credentials, FaultPlan, Outage};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::aws_lc_rs};

use crate::common::{Raw, preset};

/// Servers on a thread of their own, until they are dropped.
struct Running {
    served: Vec<Served>,
    ca: PathBuf,
    _directory: tempfile::TempDir,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Running {
    fn start(options: ServeOptions) -> Running {
        let directory = tempfile::tempdir().unwrap();
        let ca = directory.path().join("ca.pem");
        let options = ServeOptions {
            ca_file: Some(ca.clone()),
            ..options
        };
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let (told, tell) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            clock::real_runtime().unwrap().block_on(async {
                let servers = Servers::bind(options).await.unwrap();
                told.send(servers.served().to_vec()).unwrap();
                let stopped = async {
                    let _ = stopped.await;
                };
                servers.run(stopped).await;
            });
        });
        Running {
            served: tell.recv().unwrap(),
            ca,
            _directory: directory,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let address = self.served[0].address;
        command
            .env("PGHOST", address.ip().to_string())
            .env("PGPORT", address.port().to_string())
            .env("PGUSER", "admin")
            .env("PGDATABASE", "postgres")
            .env("PGSSLMODE", "disable")
            .env_remove("PGPASSWORD");
        command
    }

    /// Runs a statement with psql; what it printed, errors included.
    fn psql(&self, sql: &str) -> String {
        output(self.command("psql").args(["-XAtq", "-c", sql]))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking());
        }
    }
}

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let mut text = String::from_utf8(output.stdout).unwrap();
    text.push_str(&String::from_utf8(output.stderr).unwrap());
    text
}

/// Whether a program of PostgreSQL's is there; says so when it is not.
fn there(program: &str) -> bool {
    let there = Command::new(program).arg("--version").output().is_ok();
    if !there {
        println!("skipped: no {program} on the path");
    }
    there
}

fn in_region() -> ServeOptions {
    ServeOptions::new(preset("us-pair-in-region"))
}

/// psql with statements fed one by one.
struct Terminal {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Terminal {
    fn open(running: &Running) -> Terminal {
        let mut child = running
            .command("psql")
            .args(["-XAt", "-v", "VERBOSITY=verbose"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Terminal { child, lines }
    }

    /// Runs a statement; what it printed, then its SQLSTATE and message.
    fn run(&mut self, sql: &str) -> Vec<String> {
        let stdin = self.child.stdin.as_mut().unwrap();
        writeln!(
            stdin,
            "{sql}\n\\echo :SQLSTATE :LAST_ERROR_MESSAGE\n\\echo done"
        )
        .unwrap();
        let until_done = self.lines.by_ref().map(Result::unwrap);
        until_done.take_while(|line| line != "done").collect()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

#[test]
fn two_terminals_lose_a_race() {
    if !there("psql") {
        return;
    }
    let running = Running::start(in_region());
    assert_eq!(
        running.psql("CREATE TABLE t (id int PRIMARY KEY, v int)"),
        ""
    );
    assert_eq!(running.psql("INSERT INTO t VALUES (1, 0)"), "");
    let (mut one, mut two) = (Terminal::open(&running), Terminal::open(&running));
    for terminal in [&mut one, &mut two] {
        assert_eq!(terminal.run("BEGIN;")[0], "BEGIN");
        assert_eq!(
            terminal.run("UPDATE t SET v = v + 1 WHERE id = 1;")[0],
            "UPDATE 1"
        );
    }
    assert_eq!(one.run("COMMIT;")[0], "COMMIT");
    let lost = two.run("COMMIT;");
    assert_eq!(
        lost.last().unwrap(),
        "40001 change conflicts with another transaction (OC000)"
    );
    assert_eq!(two.run("SELECT v FROM t;")[0], "1");
}

#[test]
fn psql_describes_a_table() {
    if !there("psql") {
        return;
    }
    let running = Running::start(in_region());
    running.psql("CREATE TABLE t (id int PRIMARY KEY, v text NOT NULL)");
    let described = output(running.command("psql").args(["-X", "-c", "\\d t"]));
    for line in [
        "id     | integer |           | not null |",
        "\"t_pkey\" PRIMARY KEY",
    ] {
        assert!(described.contains(line), "{described}");
    }
    let tables = output(running.command("psql").args(["-X", "-c", "\\dt"]));
    assert!(tables.contains("public | t    | table | admin"), "{tables}");
}

#[test]
fn pgbench_runs_a_script() {
    if !there("pgbench") {
        return;
    }
    let running = Running::start(in_region());
    running.psql("CREATE TABLE t (id int PRIMARY KEY, v int)");
    let rows: Vec<_> = (1..=50).map(|id| format!("({id}, 0)")).collect();
    running.psql(&format!("INSERT INTO t VALUES {}", rows.join(", ")));
    let script = running.ca.with_file_name("script.sql");
    let text = "\\set id random(1, 50)\nBEGIN;\nSELECT v FROM t WHERE id = :id;\n\
                UPDATE t SET v = v + 1 WHERE id = :id;\nCOMMIT;\n";
    std::fs::write(&script, text).unwrap();
    for mode in ["simple", "extended", "prepared"] {
        let mut pgbench = running.command("pgbench");
        pgbench.args([
            "-n",
            "-c",
            "4",
            "-t",
            "10",
            "--max-tries=50",
            "-M",
            mode,
            "-f",
        ]);
        let said = output(pgbench.arg(&script));
        assert!(
            said.contains("transactions actually processed: 40/40"),
            "{mode}: {said}"
        );
    }
    // No confirmed update is lost.
    assert_eq!(running.psql("SELECT sum(v) FROM t").trim(), "120");
}

#[test]
fn the_distance_is_kept_or_left_out() {
    let round_trip = |wire_delay| {
        let running = Running::start(ServeOptions {
            wire_delay,
            ..ServeOptions::new(preset("us-pair-workstation"))
        });
        clock::real_runtime().unwrap().block_on(async {
            let clock = clock::Clock::real();
            let socket = tokio::net::TcpStream::connect(running.served[1].address)
                .await
                .unwrap();
            let mut raw = Raw::new(socket);
            raw.start_up(&[("user", "anyone")]);
            assert_eq!(raw.answers().await.last().unwrap(), "ready I");
            let begun = clock.now();
            raw.query("SELECT 1").answers().await;
            clock.now().since(begun)
        })
    };
    let region = &preset("us-pair-workstation").regions[1];
    let modelled = Duration::from_micros(region.round_trip.us + region.select1.us);
    let kept = round_trip(true);
    assert!(
        kept >= modelled && kept < modelled + Duration::from_millis(50),
        "{kept:?}"
    );
    assert!(round_trip(false) < modelled, "the distance is not left out");
}

#[test]
fn a_lost_endpoint_closes_its_sockets() {
    let running = Running::start(ServeOptions {
        faults: FaultPlan {
            lost: vec![Outage {
                endpoint: 0,
                from_ms: 0.0,
                to_ms: 60_000.0,
            }],
            ..FaultPlan::default()
        },
        ..in_region()
    });
    clock::real_runtime().unwrap().block_on(async {
        let socket = tokio::net::TcpStream::connect(running.served[0].address)
            .await
            .unwrap();
        let mut raw = Raw::new(socket);
        assert_eq!(raw.message().await, "end");
        let socket = tokio::net::TcpStream::connect(running.served[1].address)
            .await
            .unwrap();
        let mut raw = Raw::new(socket);
        raw.start_up(&[("user", "admin")]);
        assert_eq!(raw.answers().await.last().unwrap(), "ready I");
    });
}

#[test]
fn what_cannot_be_served_is_refused() {
    clock::real_runtime().unwrap().block_on(async {
        let refused = async |options| Servers::bind(options).await.unwrap_err().to_string();
        let plan = FaultPlan {
            drop_after_commit: 2.0,
            ..FaultPlan::default()
        };
        assert_eq!(
            refused(ServeOptions {
                faults: plan,
                ..in_region()
            })
            .await,
            "faults: drop_after_commit: 2 is not between 0 and 1"
        );
        assert_eq!(
            refused(ServeOptions {
                port: 65_535,
                ..in_region()
            })
            .await,
            "port 65535: 2 regions need as many ports from it on, up to 65535"
        );
        let plain = ServeOptions {
            credentials: Some(credentials()),
            tls: false,
            ..in_region()
        };
        assert!(refused(plain).await.starts_with("authentication needs TLS"));
        let nowhere = ServeOptions {
            ca_file: Some("/nowhere/ca.pem".into()),
            ..in_region()
        };
        assert!(matches!(
            Servers::bind(nowhere).await,
            Err(ServeError::CaFile { .. })
        ));
        let taken = Servers::bind(in_region()).await.unwrap();
        let port = taken.served()[0].address.port();
        assert!(matches!(
            Servers::bind(ServeOptions {
                port,
                ..in_region()
            })
            .await,
            Err(ServeError::Listen { .. })
        ));
    });
}

const SECRET: &str = "made up for tests";

fn credentials() -> Credentials {
    Credentials::new("AKIDSIMULATOR", SECRET)
}

/// A token signed now, valid for 15 minutes.
fn token(host: &str, user: &str, region: &str, secret: &str) -> String {
    let now = clock::Clock::real().wall();
    let credentials = Credentials::new("AKIDSIMULATOR", secret);
    credentials.token(host, region, user, now, Duration::from_secs(900))
}

#[test]
fn psql_comes_in_with_a_token_and_verified_tls_alone() {
    if !there("psql") {
        return;
    }
    let running = Running::start(ServeOptions {
        credentials: Some(credentials()),
        ..in_region()
    });
    let come_in = |user: &str, password: &str, sslmode: &str| {
        let mut psql = running.command("psql");
        psql.env("PGHOST", "localhost")
            .env("PGHOSTADDR", running.served[0].address.ip().to_string())
            .env("PGUSER", user)
            .env("PGPASSWORD", password)
            .env("PGSSLMODE", sslmode)
            .env("PGSSLROOTCERT", &running.ca);
        output(psql.args(["-XAtq", "-c", "SELECT 1"]))
    };
    let admin = token("localhost", "admin", "us-east-1", SECRET);
    let role = token("localhost", "reader", "us-east-1", SECRET);
    assert_eq!(come_in("admin", &admin, "verify-full").trim(), "1");
    assert_eq!(come_in("reader", &role, "verify-full").trim(), "1");
    for (user, password, sslmode, said) in [
        (
            "admin",
            &admin,
            "disable",
            "unable to accept connection, SSL is mandatory. AWS Authentication is required.",
        ),
        (
            "reader",
            &admin,
            "verify-full",
            "Wrong user to action mapping. user: reader, action: DbConnectAdmin",
        ),
        (
            "admin",
            &role,
            "verify-full",
            "Wrong user to action mapping. user: admin, action: DbConnect",
        ),
        (
            "admin",
            &token("localhost", "admin", "us-east-1", "guessed"),
            "verify-full",
            "unable to accept connection, access denied",
        ),
        (
            "admin",
            &token("localhost", "admin", "us-east-2", SECRET),
            "verify-full",
            "unable to accept connection, access denied",
        ),
    ] {
        let answer = come_in(user, password, sslmode);
        assert!(answer.contains(said), "{said}: {answer}");
    }
}

/// A client's side of TLS that trusts `running` and names `alpn`.
fn connector(running: &Running, alpn: Option<&[u8]>) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(&running.ca).unwrap())
        .unwrap();
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols.extend(alpn.map(<[u8]>::to_vec));
    TlsConnector::from(Arc::new(config))
}

#[test]
fn tls_is_negotiated_directly_by_its_protocol_name() {
    let running = Running::start(ServeOptions {
        credentials: Some(credentials()),
        ..in_region()
    });
    clock::real_runtime().unwrap().block_on(async {
        let host = running.served[0].host.clone();
        let open = async |alpn, name: &str| {
            let socket = tokio::net::TcpStream::connect(running.served[0].address)
                .await
                .unwrap();
            let name = ServerName::try_from(name.to_owned()).unwrap();
            connector(&running, alpn).connect(name, socket).await
        };
        // By the name that DSQL would give it.
        let stream = open(Some(b"postgresql"), &host).await.unwrap();
        let mut raw = Raw::new(stream);
        raw.start_up(&[("user", "admin"), ("database", "postgres")]);
        raw.send().await;
        assert_eq!(raw.message().await, "password?");
        let password = token(&host, "admin", "us-east-1", SECRET);
        postgres_protocol::message::frontend::password_message(password.as_bytes(), &mut raw.out)
            .unwrap();
        assert_eq!(raw.answers().await.last().unwrap(), "ready I");
        assert_eq!(raw.query("SELECT 1").answers().await[1], "row [1]");

        // Without the protocol's name, whoever is there may speak another.
        let mut raw = Raw::new(open(None, &host).await.unwrap());
        raw.start_up(&[("user", "admin")]);
        let out = raw.out.split();
        let _ = tokio::io::AsyncWriteExt::write_all(&mut raw.stream, &out).await;
        assert_eq!(raw.message().await, "end");
        assert!(open(Some(b"h2"), &host).await.is_err());

        // An address is no name: no SNI.
        let mut raw = Raw::new(open(Some(b"postgresql"), "127.0.0.1").await.unwrap());
        raw.start_up(&[("user", "admin")]);
        assert_eq!(
            raw.answers().await[0],
            "error FATAL 28000 unable to accept connection, sni was not received"
        );
    });
}
