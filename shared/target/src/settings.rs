//! From a URL and the environment to a target that can be connected to.

use std::path::Path;

use tokio_postgres::Config;
use tokio_postgres::config::{ChannelBinding, SslMode};

use crate::network::{Login, Network, Place};
use crate::open::APPLICATION;
use crate::options::Options;
use crate::target::Way;
use crate::token::{ADMIN, Scope, Signer};
use crate::url::{self, HostPort, Url, refuse};
use crate::{Endpoint, Kind, Secret, Target, TargetError, tls};

const DEFAULT_PORT: u16 = 5432;

/// The only database of a DSQL cluster.
const DSQL_DATABASE: &str = "postgres";

/// Names a PEM file whose certificates are trusted beside the machine's.
const CA_FILE: &str = "FABRIC_CA_FILE";

impl Target {
    /// A database at a URL: `postgres://…`, `postgresql://…` or
    /// `dsql://HOST[,HOST][:PORT]`. Nothing is connected to yet, and no
    /// credentials are looked up. `options` is a [`clock::Clock`] or
    /// [`Options`].
    ///
    /// # Errors
    /// In one line: the place in the URL and what would be accepted. It never
    /// repeats a password.
    pub fn from_url(url: &str, options: impl Into<Options>) -> Result<Target, TargetError> {
        let options = options.into();
        let target = match url.split_once("://") {
            Some(("postgres" | "postgresql", rest)) => postgres(url::parse(rest)?, &options)?,
            Some(("dsql", rest)) => dsql(url::parse(rest)?, &options)?,
            _ => {
                return Err(refuse(
                    "scheme",
                    "it is postgres://…, postgresql://… or dsql://HOST[,HOST][:PORT]",
                ));
            }
        };
        Ok(target.with_seed(options.seed))
    }
}

fn postgres(mut url: Url, options: &Options) -> Result<Target, TargetError> {
    const KNOWN: &str = "user, password, host, hostaddr, port, dbname, sslmode, sslrootcert, \
                         channel_binding, application_name, options";
    // A parameter of the query goes before the same thing elsewhere in the URL,
    // as in libpq, and both go before a variable.
    let query = &mut url.query;
    let variable = |name: &str| options.variable(name);
    let user = query
        .take("user")
        .or(url.user)
        .or_else(|| variable("PGUSER"));
    let database = query
        .take("dbname")
        .or(url.database)
        .or_else(|| variable("PGDATABASE"));
    let password = query
        .take("password")
        .map(Secret::new)
        .or(url.password)
        .or_else(|| options.password.clone())
        .or_else(|| variable("PGPASSWORD").map(Secret::new));
    let hosts = query.take("host");
    let mut value = |key: &str, name: &str| query.take(key).or_else(|| variable(name));
    let ports = value("port", "PGPORT");
    let addresses = value("hostaddr", "PGHOSTADDR");
    let mode = value("sslmode", "PGSSLMODE");
    let root = value("sslrootcert", "PGSSLROOTCERT");
    let channel_binding = value("channel_binding", "PGCHANNELBINDING");
    let application = value("application_name", "PGAPPNAME");
    let session_options = value("options", "PGOPTIONS");
    url.query.finish(KNOWN)?;

    let mut hosts = match hosts {
        Some(list) => plain_hosts(&list),
        None if !url.hosts.is_empty() => url.hosts,
        None => match (options.variable("PGHOST"), &addresses) {
            (Some(list), _) => plain_hosts(&list),
            (None, Some(list)) => plain_hosts(list),
            (None, None) => plain_hosts("localhost"),
        },
    };
    let ports = spread("port", ports.as_deref(), hosts.len())?;
    for (host, port) in hosts.iter_mut().zip(ports) {
        if let (None, Some(port)) = (host.port, port) {
            host.port = Some(url::port_number(port)?);
        }
    }
    let places = places(&hosts, addresses.as_deref())?;

    let mut config = Config::new();
    config.application_name(application.as_deref().unwrap_or(APPLICATION));
    if let Some(options) = &session_options {
        config.options(options);
    }
    if let Some(user) = &user {
        config.user(user);
    }
    if let Some(database) = &database {
        config.dbname(database);
    }
    if let Some(password) = &password {
        config.password(password.expose());
    }
    match channel_binding.as_deref() {
        None => {}
        Some("disable") => drop(config.channel_binding(ChannelBinding::Disable)),
        Some("prefer") => drop(config.channel_binding(ChannelBinding::Prefer)),
        Some("require") => drop(config.channel_binding(ChannelBinding::Require)),
        Some(_) => {
            return Err(refuse(
                "channel_binding",
                "it is disable, prefer or require",
            ));
        }
    }
    let mode = mode.as_deref().unwrap_or("prefer");
    if root.is_some() && mode != "verify-full" {
        return Err(refuse(
            "sslrootcert",
            "a root certificate is used with sslmode=verify-full alone; ask for that or leave it out",
        ));
    }
    let (ssl, tls) = match mode {
        "disable" => (SslMode::Disable, None),
        "prefer" => (SslMode::Prefer, Some(tls::unverified()?)),
        "require" => (SslMode::Require, Some(tls::unverified()?)),
        "verify-full" => {
            let extra = root
                .filter(|root| root != "system")
                .or_else(|| options.variable(CA_FILE));
            (
                SslMode::Require,
                Some(tls::verified(extra.as_deref().map(Path::new))?),
            )
        }
        _ => {
            return Err(refuse(
                "sslmode",
                "it is disable, prefer, require or verify-full",
            ));
        }
    };
    config.ssl_mode(ssl);

    let endpoints: Vec<Endpoint> = places
        .iter()
        .map(|place| Endpoint {
            name: url::show_host(&place.host, place.port),
            host: place.host.clone(),
            port: place.port,
        })
        .collect();
    let shown = format!(
        "postgres://{}{}{}?sslmode={mode}",
        user.map(|user| url::encode(&user) + "@")
            .unwrap_or_default(),
        host_list(&endpoints),
        database
            .map(|name| format!("/{}", url::encode(&name)))
            .unwrap_or_default(),
    );
    let network = Network {
        places,
        config,
        tls,
        login: Login::Password,
    };
    Ok(Target::assemble(
        Kind::Postgres,
        shown,
        endpoints,
        options.clock,
        Way::Network(Box::new(network)),
    ))
}

fn dsql(mut url: Url, options: &Options) -> Result<Target, TargetError> {
    const KNOWN: &str = "user, region, ca, hostaddr";
    if url.password.is_some() {
        return Err(refuse(
            "password",
            "DSQL takes none, a token is signed; leave it out",
        ));
    }
    if url.hosts.is_empty() {
        return Err(refuse(
            "host",
            "it is missing; give dsql://HOST[,HOST][:PORT]",
        ));
    }
    if url
        .database
        .as_deref()
        .is_some_and(|name| name != DSQL_DATABASE)
    {
        return Err(refuse(
            "database",
            "a DSQL cluster has `postgres` alone; leave it out",
        ));
    }
    // A port behind the last host is meant for all that have none.
    let last = url.hosts.last().and_then(|host| host.port);
    for host in &mut url.hosts {
        host.port = host.port.or(last);
    }
    let user = url
        .query
        .take("user")
        .or(url.user)
        .unwrap_or_else(|| ADMIN.to_owned());
    let regions = url.query.take("region");
    let extra = url.query.take("ca").or_else(|| options.variable(CA_FILE));
    let addresses = url.query.take("hostaddr");
    url.query.finish(KNOWN)?;

    let regions = spread("region", regions.as_deref(), url.hosts.len())?;
    let regions: Vec<String> = url
        .hosts
        .iter()
        .zip(regions)
        .map(|(host, asked)| region(&host.host, asked, options))
        .collect::<Result<_, _>>()?;
    let places = places(&url.hosts, addresses.as_deref())?;
    let endpoints: Vec<Endpoint> = places
        .iter()
        .zip(&regions)
        .map(|(place, region)| {
            let alone = regions.iter().filter(|other| *other == region).count() == 1;
            Endpoint {
                // Two endpoints in one region would not be told apart by it.
                name: match alone {
                    true => region.clone(),
                    false => url::show_host(&place.host, place.port),
                },
                host: place.host.clone(),
                port: place.port,
            }
        })
        .collect();

    let mut config = Config::new();
    config
        .user(&user)
        .dbname(DSQL_DATABASE)
        .application_name(APPLICATION)
        .ssl_mode(SslMode::Require);
    let tls = tls::verified(extra.as_deref().map(Path::new))?;
    let signer = match &options.credentials {
        Some(provider) => Signer::with_credentials(provider.clone()),
        None => Signer::of_process(),
    };
    let scopes = endpoints
        .iter()
        .zip(regions)
        .map(|(endpoint, region)| Scope {
            host: endpoint.host.clone(),
            region,
            user: user.clone(),
        })
        .collect();
    let shown = format!("dsql://{}@{}", url::encode(&user), host_list(&endpoints));
    let network = Network {
        places,
        config,
        tls: Some(tls),
        login: Login::Token { signer, scopes },
    };
    Ok(Target::assemble(
        Kind::Dsql,
        shown,
        endpoints,
        options.clock,
        Way::Network(Box::new(network)),
    ))
}

/// The region of a DSQL host: what its name says, else what the URL says, else
/// the environment.
fn region(host: &str, asked: Option<&str>, options: &Options) -> Result<String, TargetError> {
    match (region_in_name(host), asked) {
        (Some(named), Some(asked)) if named != asked => Err(refuse(
            "region",
            format!("the host's name says {named}; leave region= out"),
        )),
        (Some(named), _) => Ok(named.to_owned()),
        (None, Some(asked)) => Ok(asked.to_owned()),
        (None, None) => options
            .variable("AWS_REGION")
            .or_else(|| options.variable("AWS_DEFAULT_REGION"))
            .ok_or_else(|| {
                refuse(
                    "region",
                    format!(
                        "the host {host} does not tell it, as ID.dsql.REGION.on.aws does; \
                         add ?region=REGION or set AWS_REGION"
                    ),
                )
            }),
    }
}

/// `ID.dsql.REGION.on.aws`, or `ID.dsql-SUFFIX.REGION.on.aws` with PrivateLink.
fn region_in_name(host: &str) -> Option<&str> {
    let mut labels = host.trim_end_matches('.').split('.');
    let (Some(_), Some(service), Some(region)) = (labels.next(), labels.next(), labels.next())
    else {
        return None;
    };
    let is_dsql = service == "dsql" || service.starts_with("dsql-");
    (is_dsql && labels.eq(["on", "aws"]) && !region.is_empty()).then_some(region)
}

fn plain_hosts(list: &str) -> Vec<HostPort> {
    list.split(',')
        .map(|host| HostPort {
            host: host.to_owned(),
            port: None,
        })
        .collect()
}

fn places(hosts: &[HostPort], addresses: Option<&str>) -> Result<Vec<Place>, TargetError> {
    if hosts.iter().any(|host| host.host.is_empty()) {
        return Err(refuse("host", "it is empty; give a name or an address"));
    }
    let addresses = spread("hostaddr", addresses, hosts.len())?;
    hosts
        .iter()
        .zip(addresses)
        .map(|(host, address)| {
            if address.is_some_and(|text| text.parse::<std::net::IpAddr>().is_err()) {
                return Err(refuse("hostaddr", "it is an IP address, such as 127.0.0.1"));
            }
            Ok(Place::new(
                host.host.clone(),
                host.port.unwrap_or(DEFAULT_PORT),
                address.map(str::to_owned),
            ))
        })
        .collect()
}

/// A list with one entry a host; a single entry is for all of them.
fn spread<'a>(
    place: &'static str,
    list: Option<&'a str>,
    hosts: usize,
) -> Result<Vec<Option<&'a str>>, TargetError> {
    let Some(list) = list else {
        return Ok(vec![None; hosts]);
    };
    let entries: Vec<&str> = list.split(',').collect();
    match entries.as_slice() {
        [one] => Ok(vec![Some(*one); hosts]),
        many if many.len() == hosts => Ok(many.iter().map(|entry| Some(*entry)).collect()),
        many => Err(refuse(
            place,
            format!(
                "there are {} of them for {hosts} hosts; give one for all or one for each",
                many.len()
            ),
        )),
    }
}

fn host_list(endpoints: &[Endpoint]) -> String {
    let hosts: Vec<String> = endpoints
        .iter()
        .map(|endpoint| url::show_host(&endpoint.host, endpoint.port))
        .collect();
    hosts.join(",")
}
