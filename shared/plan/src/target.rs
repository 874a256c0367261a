//! Target URLs: their form alone. Whether a preset exists or a host answers is
//! for others to say.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::Place;

/// A database that cells run on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TargetSpec {
    /// Its name in the sweep; the default target is named by its URL, without
    /// password.
    pub name: String,
    /// Where it is.
    pub address: Address,
    /// How the load gets there, in the words of the sweep's author.
    pub network: Option<String>,
    /// Regions that the workers of a fleet run in: one for each endpoint, one
    /// for all of them, or none, which is the fleet's home region.
    pub regions: Vec<String>,
    /// Where its address was given: `preset`, `targets[0].url` or `--on`.
    pub(crate) place: Place,
}

impl TargetSpec {
    pub(crate) fn new(name: String, address: Address, place: Place) -> TargetSpec {
        TargetSpec {
            name,
            network: None,
            regions: address.regions_of_hosts(),
            address,
            place,
        }
    }

    /// The region that workers beside an endpoint run in; `None` for the
    /// fleet's home region.
    pub fn region_of(&self, endpoint: usize) -> Option<&str> {
        match self.regions.as_slice() {
            [all] => Some(all),
            each => each.get(endpoint).map(String::as_str),
        }
    }

    /// The URL to connect with, password included; [`Address`] itself is what
    /// may be shown.
    pub fn url(&self) -> &str {
        self.address.expose()
    }
}

/// Where a database is. Displayed, printed for debugging or serialised it
/// never holds a password; [`Address::expose`] does. One that has none comes
/// back from JSON as it was.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    text: String,
    kind: AddressKind,
}

/// What an address leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressKind {
    /// The embedded simulator: `sim:PRESET`.
    Simulator {
        /// Name of the latency preset.
        preset: String,
    },
    /// Aurora DSQL: `dsql://[ROLE@]HOST[:PORT][,HOST[:PORT]][?OPTIONS]`, one
    /// host for each regional endpoint.
    Dsql {
        /// Hosts, with a port where the URL has one.
        hosts: Vec<String>,
    },
    /// PostgreSQL: `postgres://…` or `postgresql://…`.
    Postgres,
    /// A name or ARN in Secrets Manager under which the URL is kept.
    Secret {
        /// Name or ARN.
        id: String,
    },
}

impl Address {
    pub(crate) const FORMS: &'static str =
        "sim:PRESET, dsql://HOST[,HOST], postgres://… or postgresql://…";

    /// Reads a URL. The error says what is wrong and never repeats the URL.
    ///
    /// # Errors
    /// When it is none of the forms.
    pub fn parse(url: &str) -> Result<Address, String> {
        if url.len() > 2_000 {
            return Err("a target URL has at most 2,000 characters".to_owned());
        }
        if url.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err("a target URL has no spaces; write %20".to_owned());
        }
        let kind = if let Some(preset) = url.strip_prefix("sim:") {
            simulator(preset)
        } else if let Some(rest) = url.strip_prefix("dsql://") {
            dsql(rest)
        } else if let Some(rest) = url
            .strip_prefix("postgres://")
            .or_else(|| url.strip_prefix("postgresql://"))
        {
            postgres(rest)
        } else {
            Err(format!("must be {}", Address::FORMS))
        };
        Ok(Address {
            text: url.to_owned(),
            kind: kind?,
        })
    }

    /// The simulator with a preset; the name must be one that `sim:` takes.
    pub(crate) fn simulator(preset: &str) -> Address {
        Address {
            text: format!("sim:{preset}"),
            kind: AddressKind::Simulator {
                preset: preset.to_owned(),
            },
        }
    }

    /// A URL that is kept in Secrets Manager.
    pub(crate) fn secret(id: &str) -> Address {
        Address {
            text: format!("secret:{id}"),
            kind: AddressKind::Secret { id: id.to_owned() },
        }
    }

    /// What it leads to.
    pub fn kind(&self) -> &AddressKind {
        &self.kind
    }

    /// The URL with its password, for the one who connects. For a secret it is
    /// `secret:` and its name: the URL has to be fetched first.
    pub fn expose(&self) -> &str {
        &self.text
    }

    /// The regions that the hosts' names tell, without repetition.
    pub fn regions(&self) -> Vec<String> {
        let mut regions: Vec<String> = Vec::new();
        for region in self.hosts().iter().filter_map(|host| region_of(host)) {
            if !regions.iter().any(|known| known == region) {
                regions.push(region.to_owned());
            }
        }
        regions
    }

    /// The region of each host; none where one of them does not tell its own.
    pub(crate) fn regions_of_hosts(&self) -> Vec<String> {
        let each = self.hosts().iter().map(|host| region_of(host));
        let each: Option<Vec<&str>> = each.collect();
        each.unwrap_or_default()
            .into_iter()
            .map(str::to_owned)
            .collect()
    }

    /// Hosts of a DSQL cluster.
    pub(crate) fn hosts(&self) -> &[String] {
        match &self.kind {
            AddressKind::Dsql { hosts } => hosts,
            _ => &[],
        }
    }

    /// Whether a password may stand in it. Of what cannot be read with
    /// certainty it is taken that one does.
    pub fn may_hold_password(&self) -> bool {
        if self.kind != AddressKind::Postgres {
            return false;
        }
        let (_, rest) = self.text.split_once("://").unwrap_or_default();
        let in_credentials = rest
            .rsplit_once('@')
            .is_some_and(|(credentials, _)| credentials.contains(':'));
        let harmless = |pair: &str| {
            let key = pair.split('=').next().unwrap_or_default();
            // A key may be written with %XX: then nobody can tell by looking.
            key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
                && !key.to_ascii_lowercase().contains("pass")
        };
        let query = rest.split_once('?').map_or("", |(_, query)| query);
        in_credentials || !query.split(['&', '#', '?']).all(harmless)
    }
}

/// The region in a host's name: CLUSTER.dsql.REGION.on.aws, or dsql-SUFFIX with
/// PrivateLink.
fn region_of(host: &str) -> Option<&str> {
    let parts: Vec<&str> = host.split(['.', ':']).collect();
    match parts.as_slice() {
        [_, service, region, "on", "aws", ..] if service.starts_with("dsql") => Some(region),
        _ => None,
    }
}

impl fmt::Display for Address {
    /// The URL without password. Of a PostgreSQL URL the query is left out as
    /// well, because it can hold one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.kind != AddressKind::Postgres {
            return f.write_str(&self.text);
        }
        let (scheme, rest) = self.text.split_once("://").unwrap_or(("postgres", ""));
        // The last `@` ends the credentials wherever it is: a password with an
        // unescaped `/`, `?` or `@` in it must not show either.
        let (user, rest) = match rest.rsplit_once('@') {
            Some((credentials, rest)) => (credentials.split(':').next(), rest),
            None => (None, rest),
        };
        let shown = rest.split(['?', '#']).next().unwrap_or_default();
        match user.filter(|user| !user.is_empty()) {
            Some(user) => write!(f, "{scheme}://{user}@{shown}"),
            None => write!(f, "{scheme}://{shown}"),
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

impl Serialize for Address {
    /// The whole URL where it has no password, else as it is displayed.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.may_hold_password() {
            true => serializer.collect_str(self),
            false => serializer.serialize_str(&self.text),
        }
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Address, D::Error> {
        let text = String::deserialize(deserializer)?;
        match text.strip_prefix("secret:") {
            Some(id) => Ok(Address::secret(id)),
            None => Address::parse(&text).map_err(serde::de::Error::custom),
        }
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 64
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
}

/// `HOST` or `HOST:PORT`; an IPv6 address stands in brackets.
pub(crate) fn is_host(text: &str) -> bool {
    let (host, port) = match text.strip_prefix('[').and_then(|t| t.split_once(']')) {
        Some((address, rest)) => {
            if address.parse::<std::net::Ipv6Addr>().is_err() {
                return false;
            }
            match rest.strip_prefix(':') {
                Some(port) => ("v6", Some(port)),
                None if rest.is_empty() => ("v6", None),
                None => return false,
            }
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let port_fits = port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0));
    let host_fits = (1..=253).contains(&host.len())
        && host
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
    host_fits && port_fits
}

fn simulator(preset: &str) -> Result<AddressKind, String> {
    match is_name(preset) {
        true => Ok(AddressKind::Simulator {
            preset: preset.to_owned(),
        }),
        false => {
            Err("`sim:` takes the name of a preset, such as sim:us-pair-workstation".to_owned())
        }
    }
}

fn dsql(rest: &str) -> Result<AddressKind, String> {
    // What follows `?` is for the one who connects, who refuses what it does
    // not know.
    let rest = rest.split_once('?').map_or(rest, |(before, _)| before);
    let (user, hosts) = match rest.rsplit_once('@') {
        Some((user, hosts)) => (Some(user), hosts),
        None => (None, rest),
    };
    if user.is_some_and(|user| user.contains(':')) {
        return Err("a dsql:// target takes no password; tokens are signed".to_owned());
    }
    if user.is_some_and(|user| !is_name(user)) {
        return Err("the role before `@` must be a name, such as dsql://admin@HOST".to_owned());
    }
    let hosts = hosts.strip_suffix('/').unwrap_or(hosts);
    let hosts: Vec<String> = hosts.split(',').map(str::to_owned).collect();
    if !hosts.iter().all(|host| is_host(host)) {
        return Err(
            "must be dsql://HOST[,HOST], each HOST a name with `:PORT` where it is not 5432"
                .to_owned(),
        );
    }
    if let Some(twice) = hosts
        .iter()
        .enumerate()
        .find(|(i, host)| hosts[..*i].contains(host))
    {
        return Err(format!("the host {} is there twice; keep one", twice.1));
    }
    Ok(AddressKind::Dsql { hosts })
}

fn postgres(rest: &str) -> Result<AddressKind, String> {
    let after_credentials = rest.rsplit_once('@').map_or(rest, |(_, after)| after);
    let hosts = after_credentials
        .split(['/', '?', '#'])
        .next()
        .unwrap_or_default();
    // No host at all means the PG* variables or the local default.
    let fits = hosts.is_empty()
        || hosts
            .split(',')
            .all(|host| is_host(host) || host.to_lowercase().starts_with("%2f"));
    match fits {
        true => Ok(AddressKind::Postgres),
        false => Err(
            "must be postgres://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE]; write special characters of a password as %XX"
                .to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_never_show() {
        for url in [
            "postgres://u:hunter2@h:5432/db",
            "postgresql://u:hunter2@h/db?sslmode=require",
            "postgres://h/db?user=u&password=hunter2",
            "postgres://u:pw/hunter2@h/db",
            "postgres://u:a@hunter2@h/db",
            "postgres://u:pw?hunter2@h/db",
            "postgres://:hunter2@h",
            "postgres://u:hunter2@h:port/db",
            "postgres://u:hunter2",
            "dsql://u:hunter2@h",
            "mysql://u:hunter2@h",
            "sim:hunter2@x",
        ] {
            let shown = match Address::parse(url) {
                Ok(address) => {
                    let json = serde_json::to_string(&address).unwrap();
                    assert_eq!(address.expose(), url);
                    format!("{address} {address:?} {json}")
                }
                Err(problem) => problem,
            };
            assert!(!shown.contains("hunter2"), "{url} shows as {shown}");
        }
    }

    #[test]
    fn forms() {
        let shown = |url: &str| match Address::parse(url) {
            Ok(address) => address.to_string(),
            Err(problem) => format!("refused: {problem}"),
        };
        assert_eq!(shown("sim:single-region"), "sim:single-region");
        assert_eq!(shown("dsql://a.x,b.x:5433"), "dsql://a.x,b.x:5433");
        assert_eq!(shown("dsql://app@a.x"), "dsql://app@a.x");
        assert_eq!(shown("dsql://[::1]:5433"), "dsql://[::1]:5433");
        assert_eq!(shown("postgres://u:p@h:1/db?x=y"), "postgres://u@h:1/db");
        assert_eq!(shown("postgres:///db"), "postgres:///db");
        for bad in [
            "",
            "sim:",
            "sim:a b",
            "dsql://",
            "dsql://a,",
            "dsql://a,a",
            "dsql://a:0",
            "dsql://a:99999",
            "postgres://h:port/db",
            "postgres",
            "http://h",
        ] {
            assert!(shown(bad).starts_with("refused: "), "{bad}: {}", shown(bad));
        }
    }

    #[test]
    fn what_has_no_password_comes_back_as_it_was() {
        for url in [
            "sim:single-region",
            "dsql://app@a.x,b.x:5433?ca=x",
            "postgres://u@h:1/db?sslmode=verify-full&application_name=x",
            "postgres:///db",
        ] {
            let address = Address::parse(url).unwrap();
            assert!(!address.may_hold_password(), "{url}");
            let json = serde_json::to_string(&address).unwrap();
            assert_eq!(serde_json::from_str::<Address>(&json).unwrap(), address);
            assert_eq!(address.expose(), url);
        }
        let secret = Address::secret("arn:aws:secretsmanager:x");
        let json = serde_json::to_string(&secret).unwrap();
        assert_eq!(serde_json::from_str::<Address>(&json).unwrap(), secret);
        assert!(serde_json::from_str::<Address>("\"mysql://h\"").is_err());
    }

    #[test]
    fn what_may_hold_a_password_is_known() {
        for url in [
            "postgres://u:p@h/db",
            "postgres://:p@h",
            "postgres://h/db?password=p",
            "postgres://h/db?sslmode=require&PassFile=p",
            "postgres://h/db?pass%77ord=p",
            "postgres://h/db#?password=p",
        ] {
            assert!(Address::parse(url).unwrap().may_hold_password(), "{url}");
        }
    }

    #[test]
    fn regions_come_from_the_hosts() {
        let address = Address::parse(
            "dsql://abc.dsql.us-east-1.on.aws,abd.dsql-fnh4.us-east-2.on.aws:5432,localhost",
        )
        .unwrap();
        assert_eq!(address.regions(), ["us-east-1", "us-east-2"]);
        // One host does not tell, so which worker runs where is not known.
        assert!(address.regions_of_hosts().is_empty());
        let peers = "dsql://abc.dsql.us-east-1.on.aws,abd.dsql.us-east-1.on.aws";
        let peers = Address::parse(peers).unwrap();
        assert_eq!(peers.regions(), ["us-east-1"]);
        assert_eq!(peers.regions_of_hosts(), ["us-east-1", "us-east-1"]);
    }
}
