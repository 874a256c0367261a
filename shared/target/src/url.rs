//! Reading target URLs: one grammar for all schemes, written out here because
//! several hosts in one URL fit no URL standard, and because an error must not
//! repeat a password.
//!
//! ```text
//! SCHEME://[USER[:PASSWORD]@][HOST[:PORT][,HOST[:PORT]]…][/DATABASE][?KEY=VALUE[&KEY=VALUE]…]
//! ```
//!
//! Everything but the separators may be percent-encoded. No error repeats what
//! stands before the last `@`; where it is not clear what that is, it repeats
//! nothing at all.

use std::collections::BTreeMap;

use crate::{Secret, TargetError};

/// The parts of a URL, decoded.
#[derive(Debug)]
pub(crate) struct Url {
    pub(crate) user: Option<String>,
    pub(crate) password: Option<Secret>,
    pub(crate) hosts: Vec<HostPort>,
    pub(crate) database: Option<String>,
    pub(crate) query: Query,
}

/// One of the hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostPort {
    pub(crate) host: String,
    pub(crate) port: Option<u16>,
}

/// What stands behind the `?`. A value may be a password, so it is not printed.
pub(crate) struct Query(BTreeMap<String, String>);

impl std::fmt::Debug for Query {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Query {
    /// Takes a value out.
    pub(crate) fn take(&mut self, key: &str) -> Option<String> {
        self.0.remove(key).filter(|value| !value.is_empty())
    }

    /// Refuses what nobody took.
    pub(crate) fn finish(self, known: &str) -> Result<(), TargetError> {
        match self.0.into_keys().next() {
            None => Ok(()),
            Some(key) => Err(refuse(
                "query",
                format!("there is no parameter `{key}`; there are {known}"),
            )),
        }
    }
}

pub(crate) fn refuse(place: &'static str, problem: impl Into<String>) -> TargetError {
    TargetError::Url {
        place,
        problem: problem.into(),
    }
}

/// Reads what follows `SCHEME://`.
pub(crate) fn parse(rest: &str) -> Result<Url, TargetError> {
    if rest.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(refuse("text", "it holds a space; write %20"));
    }
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(end);
    let (path, query) = tail.split_once('?').unwrap_or((tail, ""));
    let stray = |text: &str| text.contains('@');
    if !stray(authority)
        && (stray(path)
            || query.split('&').any(|pair| stray(key_of(pair)))
            || (stray(query) && authority.contains(':')))
    {
        return Err(refuse(
            "user and password",
            "one of them holds a `/`, a `?` or an `@`; write %2F, %3F, %40",
        ));
    }
    let (credentials, hosts) = match authority.rsplit_once('@') {
        Some((credentials, hosts)) => (Some(credentials), hosts),
        None => (None, authority),
    };
    let (user, password) = match credentials.map(|text| text.split_once(':').unwrap_or((text, "")))
    {
        Some((user, password)) => (
            non_empty(decode(user, "user")?),
            non_empty(decode(password, "password")?).map(Secret::new),
        ),
        None => (None, None),
    };
    let hosts = match hosts {
        "" => Vec::new(),
        hosts => hosts.split(',').map(host_port).collect::<Result<_, _>>()?,
    };
    let database = non_empty(decode(path.strip_prefix('/').unwrap_or(path), "database")?);
    let mut pairs = BTreeMap::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair
            .split_once('=')
            .ok_or_else(|| refuse("query", "it is KEY=VALUE, several of them joined by `&`"))?;
        let key = decode(key, "query")?;
        let value = decode(value, "query")?;
        if pairs.insert(key.clone(), value).is_some() {
            return Err(refuse("query", format!("`{key}` is there twice; keep one")));
        }
    }
    Ok(Url {
        user,
        password,
        hosts,
        database,
        query: Query(pairs),
    })
}

fn key_of(pair: &str) -> &str {
    pair.split('=').next().unwrap_or_default()
}

fn non_empty(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

/// `HOST`, `HOST:PORT`, `[ADDRESS]` or `[ADDRESS]:PORT`.
pub(crate) fn host_port(text: &str) -> Result<HostPort, TargetError> {
    let (host, port) = match text.strip_prefix('[').and_then(|text| text.split_once(']')) {
        Some((host, "")) => (host, None),
        Some((host, rest)) => (
            host,
            Some(
                rest.strip_prefix(':')
                    .ok_or_else(|| refuse("host", "after `]` comes `:PORT` or nothing"))?,
            ),
        ),
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let host = decode(host, "host")?;
    if host.is_empty() {
        return Err(refuse("host", "it is empty; give a name or an address"));
    }
    let port = port.map(port_number).transpose()?;
    Ok(HostPort { host, port })
}

/// A port, or an error that does not repeat it: what looks like a port may be
/// a piece of a password.
pub(crate) fn port_number(text: &str) -> Result<u16, TargetError> {
    text.parse()
        .ok()
        .filter(|port| *port > 0)
        .ok_or_else(|| refuse("port", "it is a number from 1 to 65535"))
}

fn decode(text: &str, place: &'static str) -> Result<String, TargetError> {
    let bad = || {
        refuse(
            place,
            "after `%` come two hexadecimal digits, and all of it is UTF-8; write % itself as %25",
        )
    };
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || rest.next().and_then(|b| char::from(b).to_digit(16));
                let (high, low) = (digit().ok_or_else(bad)?, digit().ok_or_else(bad)?);
                u8::try_from(high * 16 + low).map_err(|_| bad())?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).map_err(|_| bad())
}

/// Encodes what would be read as a separator, for showing a URL.
pub(crate) fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '%' | '@' | ':' | '/' | '?' | '#' | '&' | '=' | ',' | '[' | ']' => {
                out.push_str(&format!("%{:02X}", u32::from(c)));
            }
            c if c.is_control() || c.is_whitespace() => {
                let mut buffer = [0; 4];
                for byte in c.encode_utf8(&mut buffer).bytes() {
                    out.push_str(&format!("%{byte:02X}"));
                }
            }
            c => out.push(c),
        }
    }
    out
}

/// Host and port as they stand in a URL.
pub(crate) fn show_host(host: &str, port: u16) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{}:{port}", encode(host))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parts() {
        let url = parse("u%40x:p%2Fw@h1:1,[::1]:2,h3/db%20x?a=1&b=%26").unwrap();
        assert_eq!(url.user.as_deref(), Some("u@x"));
        assert_eq!(url.password.unwrap().expose(), "p/w");
        let hosts: Vec<_> = url
            .hosts
            .iter()
            .map(|h| (h.host.as_str(), h.port))
            .collect();
        assert_eq!(hosts, [("h1", Some(1)), ("::1", Some(2)), ("h3", None)]);
        assert_eq!(url.database.as_deref(), Some("db x"));
        let mut query = url.query;
        assert_eq!(query.take("a").as_deref(), Some("1"));
        assert_eq!(query.take("b").as_deref(), Some("&"));
        query.finish("").unwrap();
    }

    #[test]
    fn nothing_at_all_is_allowed() {
        let url = parse("").unwrap();
        assert!(url.hosts.is_empty() && url.user.is_none() && url.database.is_none());
        assert!(parse("/db").unwrap().hosts.is_empty());
        assert!(parse("?user=me").unwrap().hosts.is_empty());
        assert_eq!(
            parse("h?user=a@b").unwrap().query.take("user").as_deref(),
            Some("a@b")
        );
    }

    #[test]
    fn an_at_sign_in_a_password_is_part_of_it() {
        let url = parse("u:p@ss#w@h").unwrap();
        assert_eq!(url.password.unwrap().expose(), "p@ss#w");
        assert_eq!(url.hosts[0].host, "h");
    }

    #[test]
    fn no_error_repeats_a_password() {
        for bad in [
            "u:marked/secret@h/db",
            "u:marked?secret@h/db",
            "u:12/marked@h",
            "u:12?marked=x@h",
            "u:marked%zz@h",
            "u:marked@h:99999",
            "u:marked@h:0",
            "u:marked@,h",
            "u:marked@[::1]x",
            "u:marked@h?nothing",
            "u:marked@h?a=1&a=2",
            "u:mar ked@h",
            "marked:secret",
        ] {
            let error = parse(bad).map(|_| ()).unwrap_err().to_string();
            assert!(
                !error.contains("marked") && !error.contains("secret"),
                "{bad}: {error}"
            );
            assert!(
                !error.contains('\n') && error.starts_with("target URL, "),
                "{error}"
            );
        }
    }

    #[test]
    fn what_is_shown_can_be_read_again() {
        for text in ["plain", "a@b:c/d?e#f&g=h,i[j]%", "sp ace\u{a0}ü"] {
            assert_eq!(decode(&encode(text), "user").unwrap(), text);
        }
        assert_eq!(show_host("::1", 5), "[::1]:5");
    }
}
