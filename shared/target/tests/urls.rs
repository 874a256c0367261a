//! What a URL and the environment come to, and what is refused.

// The lint knows test functions only, not their helpers.
#![allow(clippy::unwrap_used)]

mod fake;

use clock::Clock;
use fabric_target::{Endpoint, Kind, Options, Target, TargetError};

fn read(url: &str, environment: Environment<'_>) -> Result<Target, TargetError> {
    let options = Options::new(Clock::real()).environment(environment.iter().copied());
    Target::from_url(url, options)
}

type Environment<'a> = &'a [(&'a str, &'a str)];

/// Names of the endpoints and the URL as reports show it.
fn shown(url: &str, environment: Environment<'_>) -> (Vec<String>, String) {
    let target = read(url, environment).unwrap_or_else(|error| panic!("{url}: {error}"));
    let names = target
        .endpoints()
        .iter()
        .map(|it| it.name.clone())
        .collect();
    (names, target.describe().url)
}

/// A CA file, so that these tests do not depend on the machine's roots.
fn with_ca(test: impl FnOnce(&str)) {
    test(fake::Identity::new(&["h"]).ca_path());
}

#[test]
fn postgres_urls() {
    let table: &[(&str, Environment<'_>, &[&str], &str)] = &[
        (
            "postgres://u:p@h/db",
            &[],
            &["h:5432"],
            "postgres://u@h:5432/db?sslmode=prefer",
        ),
        (
            "postgresql://h:1,i:2/",
            &[],
            &["h:1", "i:2"],
            "postgres://h:1,i:2?sslmode=prefer",
        ),
        // As in libpq, a port belongs to its host alone.
        (
            "postgres://h,i:2",
            &[],
            &["h:5432", "i:2"],
            "postgres://h:5432,i:2?sslmode=prefer",
        ),
        (
            "postgres://[::1]:7/x",
            &[],
            &["[::1]:7"],
            "postgres://[::1]:7/x?sslmode=prefer",
        ),
        (
            "postgres:///",
            &[],
            &["localhost:5432"],
            "postgres://localhost:5432?sslmode=prefer",
        ),
        (
            "postgres://",
            &[
                ("PGHOST", "a,b"),
                ("PGPORT", "6,7"),
                ("PGUSER", "me"),
                ("PGDATABASE", "d"),
            ],
            &["a:6", "b:7"],
            "postgres://me@a:6,b:7/d?sslmode=prefer",
        ),
        (
            "postgres://h",
            &[("PGHOST", "a"), ("PGPORT", "6"), ("PGSSLMODE", "disable")],
            &["h:6"],
            "postgres://h:6?sslmode=disable",
        ),
        (
            "postgres://u@h/d?user=v&dbname=e&port=9&sslmode=require",
            &[("PGUSER", "w")],
            &["h:9"],
            "postgres://v@h:9/e?sslmode=require",
        ),
        (
            "postgres://h?hostaddr=127.0.0.1&application_name=x&options=-c%20a%3Db&channel_binding=disable",
            &[],
            &["h:5432"],
            "postgres://h:5432?sslmode=prefer",
        ),
        (
            "postgres:///d?host=%2Ftmp",
            &[],
            &["%2Ftmp:5432"],
            "postgres://%2Ftmp:5432/d?sslmode=prefer",
        ),
        (
            "postgres://%2Ftmp/d",
            &[],
            &["%2Ftmp:5432"],
            "postgres://%2Ftmp:5432/d?sslmode=prefer",
        ),
        (
            "postgres://",
            &[("PGHOSTADDR", "127.0.0.1")],
            &["127.0.0.1:5432"],
            "postgres://127.0.0.1:5432?sslmode=prefer",
        ),
    ];
    for (url, environment, names, description) in table {
        let (found, described) = shown(url, environment);
        assert_eq!(
            (found, described.as_str()),
            (
                names.iter().map(|n| (*n).to_owned()).collect(),
                *description
            ),
            "{url}"
        );
        // What is shown leads to the same place.
        assert_eq!(shown(&described, &[]).1, *description);
    }
}

#[test]
fn dsql_urls() {
    with_ca(|ca| {
        let ca = ("FABRIC_CA_FILE", ca);
        let table: &[(&str, Environment<'_>, &[&str], &str)] = &[
            (
                "dsql://abc.dsql.us-east-1.on.aws",
                &[],
                &["us-east-1"],
                "dsql://admin@abc.dsql.us-east-1.on.aws:5432",
            ),
            (
                "dsql://a.dsql.us-east-1.on.aws,b.dsql.us-east-2.on.aws:6000",
                &[],
                &["us-east-1", "us-east-2"],
                "dsql://admin@a.dsql.us-east-1.on.aws:6000,b.dsql.us-east-2.on.aws:6000",
            ),
            (
                "dsql://a.dsql.us-east-1.on.aws:1,b.dsql.us-east-2.on.aws:2?hostaddr=127.0.0.1",
                &[],
                &["us-east-1", "us-east-2"],
                "dsql://admin@a.dsql.us-east-1.on.aws:1,b.dsql.us-east-2.on.aws:2",
            ),
            (
                "dsql://a.dsql-fnh4.eu-west-1.on.aws/postgres?user=loader",
                &[],
                &["eu-west-1"],
                "dsql://loader@a.dsql-fnh4.eu-west-1.on.aws:5432",
            ),
            (
                "dsql://role@proxy",
                &[("AWS_REGION", "eu-west-2")],
                &["eu-west-2"],
                "dsql://role@proxy:5432",
            ),
            (
                "dsql://proxy?region=eu-west-3",
                &[("AWS_REGION", "eu-west-2")],
                &["eu-west-3"],
                "dsql://admin@proxy:5432",
            ),
            (
                "dsql://p,q?region=r1,r2",
                &[],
                &["r1", "r2"],
                "dsql://admin@p:5432,q:5432",
            ),
            (
                "dsql://p,q:9",
                &[("AWS_DEFAULT_REGION", "r")],
                &["p:9", "q:9"],
                "dsql://admin@p:9,q:9",
            ),
        ];
        for (url, environment, names, description) in table {
            let environment: Vec<_> = environment.iter().copied().chain([ca]).collect();
            let (found, described) = shown(url, &environment);
            assert_eq!(
                (found, described.as_str()),
                (
                    names.iter().map(|n| (*n).to_owned()).collect(),
                    *description
                ),
                "{url}"
            );
        }
        let target = read("dsql://a.dsql.us-east-1.on.aws:7", &[ca]).unwrap();
        assert_eq!(target.kind(), Kind::Dsql);
        assert_eq!(
            target.endpoints(),
            [Endpoint {
                name: "us-east-1".to_owned(),
                host: "a.dsql.us-east-1.on.aws".to_owned(),
                port: 7,
            }]
        );
    });
}

#[test]
fn refusals_name_the_place_and_what_would_do() {
    let table: &[(&str, Environment<'_>, &str)] = &[
        (
            "",
            &[],
            "target URL, scheme: it is postgres://…, postgresql://… or dsql://HOST[,HOST][:PORT]",
        ),
        (
            "mysql://u:marked@h",
            &[],
            "target URL, scheme: it is postgres://…, postgresql://… or dsql://HOST[,HOST][:PORT]",
        ),
        (
            "postgres:h",
            &[],
            "target URL, scheme: it is postgres://…, postgresql://… or dsql://HOST[,HOST][:PORT]",
        ),
        (
            "postgres://u:marked@h:99999",
            &[],
            "target URL, port: it is a number from 1 to 65535",
        ),
        (
            "postgres://h",
            &[("PGPORT", "marked")],
            "target URL, port: it is a number from 1 to 65535",
        ),
        (
            "postgres://h?sslmode=verify-ca",
            &[],
            "target URL, sslmode: it is disable, prefer, require or verify-full",
        ),
        (
            "postgres://h",
            &[("PGSSLMODE", "allow")],
            "target URL, sslmode: it is disable, prefer, require or verify-full",
        ),
        (
            "postgres://h?sslmode=require&sslrootcert=x",
            &[],
            "target URL, sslrootcert: a root certificate is used with sslmode=verify-full alone; ask for that or leave it out",
        ),
        (
            "postgres://h?sslmod=require",
            &[],
            "target URL, query: there is no parameter `sslmod`; there are user, password, host, hostaddr, port, dbname, sslmode, sslrootcert, channel_binding, application_name, options",
        ),
        (
            "postgres://h?channel_binding=x",
            &[],
            "target URL, channel_binding: it is disable, prefer or require",
        ),
        (
            "postgres://h?hostaddr=here",
            &[],
            "target URL, hostaddr: it is an IP address, such as 127.0.0.1",
        ),
        (
            "postgres://a,b,c?port=1,2",
            &[],
            "target URL, port: there are 2 of them for 3 hosts; give one for all or one for each",
        ),
        (
            "postgres://a,,b",
            &[],
            "target URL, host: it is empty; give a name or an address",
        ),
        (
            "dsql://",
            &[],
            "target URL, host: it is missing; give dsql://HOST[,HOST][:PORT]",
        ),
        (
            "dsql://u:marked@h",
            &[],
            "target URL, password: DSQL takes none, a token is signed; leave it out",
        ),
        (
            "dsql://h/other",
            &[],
            "target URL, database: a DSQL cluster has `postgres` alone; leave it out",
        ),
        (
            "dsql://h",
            &[],
            "target URL, region: the host h does not tell it, as ID.dsql.REGION.on.aws does; add ?region=REGION or set AWS_REGION",
        ),
        (
            "dsql://a.dsql.us-east-1.on.aws?region=us-east-2",
            &[],
            "target URL, region: the host's name says us-east-1; leave region= out",
        ),
        (
            "dsql://h?region=r&sslmode=disable",
            &[],
            "target URL, query: there is no parameter `sslmode`; there are user, region, ca, hostaddr",
        ),
    ];
    for (url, environment, expected) in table {
        let error = read(url, environment).unwrap_err().to_string();
        assert_eq!(error, *expected, "{url}");
        assert!(!error.contains("marked"));
    }
}

#[test]
fn a_ca_file_that_does_not_serve_is_named() {
    let missing = read("dsql://h?region=r&ca=/no/such/file.pem", &[]).unwrap_err();
    assert!(matches!(&missing, TargetError::CaFile { path, .. } if path == "/no/such/file.pem"));
    let empty = tempfile::NamedTempFile::new().unwrap();
    let path = empty.path().to_str().unwrap();
    for url in ["dsql://h?region=r", "postgres://h?sslmode=verify-full"] {
        let error = read(url, &[("FABRIC_CA_FILE", path)])
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            format!(
                "cannot trust the certificates in {path}: it holds no certificate; give a readable PEM file"
            )
        );
    }
    // Where nothing is verified it is not looked at.
    read("postgres://h", &[("FABRIC_CA_FILE", path)]).unwrap();
}
