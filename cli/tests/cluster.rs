//! `fabric cluster` from the shell: against a control plane of the test's own,
//! which takes its time and fails, and against the stand-in cloud that
//! FABRIC_TEST_CLOUD names, such as http://127.0.0.1:4566.

#![allow(missing_docs, clippy::unwrap_used)]

mod plane;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use plane::{Fault, Plane};
use serde_json::Value;

struct Ran {
    code: i32,
    stdout: String,
    stderr: String,
}

impl Ran {
    fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|_| panic!("{}", self.stderr))
    }
}

/// A user with a state directory of their own.
struct User {
    home: tempfile::TempDir,
    endpoint: Option<String>,
    key: String,
}

impl User {
    fn of(endpoint: &str) -> User {
        User {
            home: tempfile::tempdir().unwrap(),
            endpoint: Some(endpoint.to_owned()),
            key: "111122223333".to_owned(),
        }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fabric"));
        command.args(args).current_dir(self.home.path());
        command.env_clear();
        command.env("HOME", self.home.path());
        command.env("AWS_EC2_METADATA_DISABLED", "true");
        command.env("AWS_MAX_ATTEMPTS", "1");
        if let Some(endpoint) = &self.endpoint {
            command.env("AWS_ENDPOINT_URL", endpoint);
            command.env("AWS_ACCESS_KEY_ID", &self.key);
            command.env("AWS_SECRET_ACCESS_KEY", "marked-secret");
        }
        command
    }

    fn fabric(&self, args: &[&str]) -> Ran {
        let output = self.command(args).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let ran = Ran {
            code: output.status.code().unwrap_or(-1),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        };
        for text in [&ran.stdout, &ran.stderr] {
            assert!(!text.contains("marked-secret"), "{text}");
        }
        ran
    }

    fn manifest(&self) -> PathBuf {
        self.home.path().join(".local/state/fabric/manifest.jsonl")
    }

    fn events(&self) -> Vec<String> {
        let lines = lines(&self.manifest());
        let events = lines.iter().map(|line| line["event"].as_str().unwrap());
        events.map(str::to_owned).collect()
    }
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

const PAIR: [&str; 9] = [
    "cluster",
    "create",
    "--regions",
    "us-east-1,us-east-2",
    "--witness",
    "us-west-2",
    "--name",
    "pair",
    "--json",
];

#[test]
fn wrong_flags_are_one_line_and_ask_nobody() {
    let user = User::of("http://127.0.0.1:1");
    for (args, told) in [
        ("create", "--regions"),
        ("create --regions mars", "region 'mars'"),
        ("create --regions us-east-1,us-east-2", "--witness REGION"),
        (
            "create --regions us-east-1 --witness us-west-2",
            "only a pair",
        ),
        (
            "create --regions us-east-1,us-east-1 --witness us-west-2",
            "twice",
        ),
        (
            "create --regions us-east-1,us-east-2 --witness us-east-2",
            "third",
        ),
        (
            "create --regions us-east-1,us-east-2 --witness moon",
            "--witness: region 'moon'",
        ),
        (
            "create --regions a-b-1,a-b-2,a-b-3 --witness us-west-2",
            "3 regions",
        ),
        ("create --regions us-east-1 --name=-x", "--name '-x'"),
        ("create --regions us-east-1 --name a/b", "--name 'a/b'"),
        ("create --regions us-east-1 --stack a/b", "--stack 'a/b'"),
        ("create --regions us-east-1 --tag novalue", "KEY=VALUE"),
        (
            "create --regions us-east-1 --tag dsql-fabric:name=x",
            "prefix",
        ),
        ("create --regions us-east-1 --tag aws:x=x", "prefix"),
        ("create --regions us-east-1 --tag a=1 --tag a=2", "a twice"),
        ("create --regions us-east-1 --tag a=x;y", "accepted"),
        ("create --regions us-east-1 --timeout-s 0", "--timeout-s"),
        ("delete", "--name NAME"),
        ("delete --name a --id b", "cannot be used with"),
        ("delete --name a", "--regions REGION"),
        ("delete --id short --regions us-east-1", "26 letters"),
        ("status --name a --regions nowhere", "region 'nowhere'"),
    ] {
        let args: Vec<&str> = std::iter::once("cluster").chain(args.split(' ')).collect();
        let ran = user.fabric(&args);
        assert_eq!(ran.code, 1, "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(told), "{args:?}: {}", ran.stderr);
        assert_eq!(ran.stderr.lines().count(), 1, "{args:?}: {}", ran.stderr);
        assert_eq!(ran.stdout, "");
    }
    assert!(!user.manifest().exists());
}

#[test]
fn no_credentials_say_what_to_set() {
    let mut user = User::of("");
    user.endpoint = None;
    let ran = user.fabric(&["cluster", "create", "--regions", "us-east-1", "--name", "n"]);
    assert_eq!(ran.code, 1);
    // The line that says what is begun, and the error.
    assert_eq!(ran.stderr.lines().count(), 2, "{}", ran.stderr);
    let line = ran.stderr.lines().last().unwrap();
    assert!(
        line.contains("dsql ListClusters in us-east-1: no credentials"),
        "{line}"
    );
    assert!(
        line.contains("AWS_ACCESS_KEY_ID") && line.contains("AWS_PROFILE"),
        "{line}"
    );
    assert!(line.len() < 400, "{line}");
    assert!(!user.manifest().exists());
}

#[test]
fn nobody_there_is_one_short_line() {
    let user = User::of("http://127.0.0.1:1");
    let ran = user.fabric(&["cluster", "status", "--name", "n", "--regions", "us-east-1"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("Connection refused"), "{}", ran.stderr);
    assert!(ran.stderr.contains("AWS_ENDPOINT_URL"), "{}", ran.stderr);
    assert!(ran.stderr.len() < 300, "{}", ran.stderr);
}

#[test]
fn a_pair_is_peered_waited_for_shown_and_deleted() {
    let plane = Plane::start();
    let user = User::of(&plane.url);
    let ran = user.fabric(&PAIR);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let made = ran.json();
    assert_eq!(made["done"], true);
    let clusters = made["clusters"].as_array().unwrap();
    assert_eq!(clusters.len(), 2);
    for (cluster, region) in clusters.iter().zip(["us-east-1", "us-east-2"]) {
        assert_eq!(cluster["region"], region);
        assert_eq!(cluster["status"], "ACTIVE");
        assert_eq!(cluster["witness"], "us-west-2");
        assert_eq!(cluster["tags"]["dsql-fabric:name"], "pair");
        assert_eq!(cluster["deletion_protection"], false);
    }
    assert_eq!(clusters[0]["peers"][0], clusters[1]["arn"]);
    assert_eq!(clusters[1]["peers"][0], clusters[0]["arn"]);
    let hosts: Vec<&str> = clusters
        .iter()
        .map(|c| c["host"].as_str().unwrap())
        .collect();
    assert_eq!(made["url"], format!("dsql://{}", hosts.join(",")));
    let steps: Vec<&str> = made["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| step["step"].as_str().unwrap())
        .collect();
    assert_eq!(
        steps,
        [
            "create in us-east-1",
            "create in us-east-2",
            "peer us-east-1 with us-east-2",
            "wait for us-east-1",
            "wait for us-east-2"
        ]
    );
    // Each create was noted before and after, with the token that was sent.
    let noted = lines(&user.manifest());
    assert_eq!(
        user.events(),
        ["create_requested", "created", "create_requested", "created"]
    );
    {
        let state = plane.state.lock().unwrap();
        for (sent, noted) in state.creates.iter().zip([&noted[0], &noted[2]]) {
            assert_eq!(sent["clientToken"], noted["key"]);
            assert_eq!(sent["tags"]["dsql-fabric:created"], noted["at"]);
        }
    }

    // The same again makes nothing new.
    let again = user.fabric(&PAIR);
    assert_eq!(again.code, 0, "{}", again.stderr);
    assert_eq!(again.json()["url"], made["url"]);
    assert_eq!(plane.count(), 2);
    // Another shape under that name is refused.
    let other = [
        "cluster",
        "create",
        "--regions",
        "us-east-1",
        "--name",
        "pair",
    ];
    let other = user.fabric(&other);
    assert_eq!(other.code, 1);
    assert!(
        other
            .stderr
            .contains("already, with its witness in us-west-2"),
        "{}",
        other.stderr
    );

    let status = user.fabric(&["cluster", "status", "--name", "pair", "--json"]);
    assert_eq!(status.code, 0, "{}", status.stderr);
    assert_eq!(status.json()["url"], made["url"]);
    let all = user.fabric(&["cluster", "status"]);
    assert!(
        all.stdout.contains("us-east-2") && all.stdout.contains("pair"),
        "{}",
        all.stdout
    );

    // One id of the pair is enough for both.
    let arn = clusters[1]["arn"].as_str().unwrap();
    let ran = user.fabric(&["cluster", "delete", "--id", arn, "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let gone = ran.json();
    assert_eq!(gone["confirmed"], true);
    for cluster in gone["clusters"].as_array().unwrap() {
        assert!(cluster["requested_utc"].as_str() <= cluster["confirmed_utc"].as_str());
        assert!(cluster["s"].as_f64().unwrap() > 0.0);
    }
    assert_eq!(plane.count(), 0);
    assert_eq!(
        user.events()[4..]
            .iter()
            .filter(|e| *e == "delete_requested")
            .count(),
        2
    );
    assert_eq!(
        user.events()[4..]
            .iter()
            .filter(|e| *e == "deleted")
            .count(),
        2
    );
    // Once more: it is known and gone.
    let again = user.fabric(&["cluster", "delete", "--name", "pair"]);
    assert_eq!(again.code, 0, "{}", again.stderr);
    let never = [
        "cluster",
        "delete",
        "--name",
        "never",
        "--regions",
        "us-east-1",
    ];
    let never = user.fabric(&never);
    assert_eq!(never.code, 1);
    assert!(
        never.stderr.contains("no cluster named never"),
        "{}",
        never.stderr
    );
}

#[test]
fn a_create_that_fails_half_way_says_what_exists_and_can_go_on() {
    let plane = Plane::start();
    plane.fault("us-east-2", Fault::Quota);
    let user = User::of(&plane.url);
    let ran = user.fabric(&PAIR);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    let line = ran.stderr.lines().last().unwrap();
    for told in [
        "dsql CreateCluster in us-east-2",
        "ServiceQuotaExceededException: You have reached the cluster limit.",
        "what exists: 000000000000000000000000c1 in us-east-1 (PENDING_SETUP)",
        "fabric cluster delete --name pair --regions us-east-1,us-east-2",
    ] {
        assert!(line.contains(told), "{told}: {line}");
    }
    assert_eq!(ran.json()["done"], false);
    assert_eq!(
        user.events(),
        [
            "create_requested",
            "created",
            "create_requested",
            "create_refused"
        ]
    );

    plane.no_faults();
    let ran = user.fabric(&PAIR);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(plane.count(), 2);
    // The first cluster was made once, the second asked for twice.
    assert_eq!(plane.state.lock().unwrap().creates.len(), 3);
    let ran = user.fabric(&["cluster", "delete", "--name", "pair"]);
    assert_eq!((ran.code, plane.count()), (0, 0), "{}", ran.stderr);
}

#[test]
fn half_a_pair_can_be_deleted() {
    let plane = Plane::start();
    plane.fault("us-east-2", Fault::Quota);
    let user = User::of(&plane.url);
    assert_eq!(user.fabric(&PAIR).code, 2);
    let ran = user.fabric(&["cluster", "delete", "--name", "pair"]);
    assert_eq!((ran.code, plane.count()), (0, 0), "{}", ran.stderr);
}

#[test]
fn a_lost_answer_makes_no_second_cluster_and_is_not_forgotten() {
    let create = ["cluster", "create", "--regions", "us-east-1", "--name", "n"];
    // The cluster was made: found by its tag, closed in the manifest.
    let plane = Plane::start();
    plane.fault("us-east-1", Fault::LostAnswer);
    let user = User::of(&plane.url);
    let ran = user.fabric(&create);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("perhaps one in us-east-1"),
        "{}",
        ran.stderr
    );
    assert_eq!(user.events(), ["create_requested"]);
    let status = user.fabric(&["cluster", "status"]);
    assert!(
        status.stdout.contains("c1.dsql.us-east-1"),
        "{}",
        status.stdout
    );
    assert_eq!(user.events(), ["create_requested", "created"]);
    assert_eq!(user.fabric(&create).code, 0);
    assert_eq!(plane.count(), 1);

    // Nothing was made: the same token is sent again.
    let plane = Plane::start();
    plane.fault("us-east-1", Fault::LostRequest);
    let user = User::of(&plane.url);
    assert_eq!(user.fabric(&create).code, 2);
    assert_eq!(plane.count(), 0);
    // Deleting now cannot be sure yet, and says so.
    let ran = user.fabric(&["cluster", "delete", "--name", "n"]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("never answered"), "{}", ran.stderr);
    let ran = user.fabric(&create);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let state = plane.state.lock().unwrap();
    assert_eq!(state.creates.len(), 2);
    assert_eq!(state.creates[0], state.creates[1]);
}

#[test]
fn deletion_protection_holds_until_it_is_forced() {
    let plane = Plane::start();
    let user = User::of(&plane.url);
    let create = "cluster create --regions us-east-1 --name n --deletion-protection \
                  --tag team=a=b --stack fleet";
    let create: Vec<&str> = create.split_whitespace().collect();
    let ran = user.fabric(&create);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    {
        let state = plane.state.lock().unwrap();
        assert_eq!(state.creates[0]["tags"]["team"], "a=b");
        assert_eq!(state.creates[0]["tags"]["dsql-fabric:stack"], "fleet");
    }
    let ran = user.fabric(&["cluster", "delete", "--name", "n"]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.stderr.contains("has deletion protection; --force"),
        "{}",
        ran.stderr
    );
    assert_eq!(plane.calls("DELETE"), 0);
    let ran = user.fabric(&["cluster", "delete", "--name", "n", "--force"]);
    assert_eq!((ran.code, plane.count()), (0, 0), "{}", ran.stderr);
}

#[test]
fn a_deadline_and_an_interrupt_say_what_exists() {
    let plane = Plane::start();
    plane.fault("us-east-1", Fault::Stuck);
    let user = User::of(&plane.url);
    let create = "cluster create --regions us-east-1 --name n --timeout-s 2";
    let create: Vec<&str> = create.split_whitespace().collect();
    let ran = user.fabric(&create);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("not done within 2 s"), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("us-east-1 (CREATING)"),
        "{}",
        ran.stderr
    );

    let mut child = user
        .command(&["cluster", "create", "--regions", "us-east-1", "--name", "m"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = BufReader::new(child.stderr.take().unwrap()).lines();
    let created = told
        .by_ref()
        .map(Result::unwrap)
        .find(|line| line.contains(": created "));
    assert!(created.is_some());
    let pid = child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &pid])
            .status()
            .unwrap()
            .success()
    );
    let rest: Vec<String> = told.map(Result::unwrap).collect();
    assert_eq!(child.wait().unwrap().code(), Some(2), "{rest:?}");
    let last = rest.last().unwrap();
    assert!(last.contains("interrupted; what exists: "), "{last}");
    assert!(last.contains("fabric cluster delete --name m"), "{last}");
}

#[test]
fn a_stranger_is_deleted_by_force_alone() {
    let plane = Plane::start();
    let user = User::of(&plane.url);
    let create = ["cluster", "create", "--regions", "us-east-1", "--name", "n"];
    assert_eq!(user.fabric(&create).code, 0);
    let id = format!("{:0>26}", "c1");
    plane.state.lock().unwrap().untag(&id);
    let mut delete = vec!["cluster", "delete", "--id", &id, "--regions", "us-east-1"];
    let ran = user.fabric(&delete);
    assert_eq!(ran.code, 1);
    assert!(
        ran.stderr.contains("not made by this command"),
        "{}",
        ran.stderr
    );
    delete.push("--force");
    let ran = user.fabric(&delete);
    assert_eq!((ran.code, plane.count()), (0, 0), "{}", ran.stderr);
}

#[test]
fn a_manifest_that_cannot_be_written_stops_before_anything_is_made() {
    let plane = Plane::start();
    let user = User::of(&plane.url);
    std::fs::write(user.home.path().join("file"), "").unwrap();
    let mut create = vec!["cluster", "create", "--regions", "us-east-1", "--name", "n"];
    create.extend(["--manifest", "file/manifest.jsonl"]);
    let ran = user.fabric(&create);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    assert!(ran.stderr.contains("manifest"), "{}", ran.stderr);
    assert_eq!((plane.count(), plane.calls("POST")), (0, 0));
}

/// The same verbs against the stand-in's control plane.
#[test]
fn a_pair_on_the_stand_in() {
    let Ok(endpoint) = std::env::var("FABRIC_TEST_CLOUD") else {
        println!("skipped: no cloud (set FABRIC_TEST_CLOUD)");
        return;
    };
    // Twelve digits select an account of the stand-in's: this run's own.
    let since = clock::Clock::real()
        .wall()
        .duration_since(std::time::UNIX_EPOCH);
    let user = User {
        key: format!("6{:011}", since.unwrap().as_micros() % 100_000_000_000),
        ..User::of(&endpoint)
    };
    let ran = user.fabric(&PAIR);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let made = ran.json();
    assert_eq!(made["clusters"].as_array().unwrap().len(), 2);
    assert_eq!(made["clusters"][0]["peers"][0], made["clusters"][1]["arn"]);
    let status = user.fabric(&["cluster", "status", "--name", "pair", "--json"]);
    assert_eq!(status.code, 0, "{}", status.stderr);
    assert_eq!(status.json()["url"], made["url"]);
    let ran = user.fabric(&["cluster", "delete", "--name", "pair", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(ran.json()["confirmed"], true);
    let status = user.fabric(&["cluster", "status", "--name", "pair"]);
    assert_eq!(status.code, 1, "{}", status.stdout);
}
