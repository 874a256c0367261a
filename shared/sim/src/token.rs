//! Authentication tokens: what DSQL takes for a password.
//!
//! A token is the presigned form of a request that nobody sends (AWS Signature
//! Version 4): host, action, and who signed it when, for how long.
//!
//! ```text
//! HOST/?Action=DbConnectAdmin&X-Amz-Algorithm=AWS4-HMAC-SHA256
//!   &X-Amz-Credential=KEY/DATE/REGION/dsql/aws4_request&X-Amz-Date=…
//!   &X-Amz-Expires=900&X-Amz-SignedHeaders=host&X-Amz-Signature=…
//! ```
//!
//! <https://docs.aws.amazon.com/aurora-dsql/latest/userguide/SECTION_authentication-token.html>

use std::time::{Duration, SystemTime};

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

/// How long a token may be valid at most: a week.
const LONGEST_S: u64 = 604_800;

/// How far the signer's clock may be ahead, as in all of Signature Version 4.
const SKEW_S: u64 = 300;

/// An access key whose tokens a served simulator accepts. Made up: it opens
/// nothing else.
#[derive(Clone)]
pub struct Credentials {
    /// The key's public part.
    pub access_key: String,
    secret: String,
}

impl Credentials {
    /// Credentials of these two parts.
    pub fn new(access_key: impl Into<String>, secret: impl Into<String>) -> Credentials {
        Credentials {
            access_key: access_key.into(),
            secret: secret.into(),
        }
    }

    /// A token for `user` at an endpoint, as an SDK would sign it at `at`: for
    /// clients that have no SDK, such as psql.
    pub fn token(
        &self,
        host: &str,
        region: &str,
        user: &str,
        at: SystemTime,
        lives: Duration,
    ) -> String {
        let date = basic_format(since_1970(at));
        let query = format!(
            "Action={}&X-Amz-Algorithm=AWS4-HMAC-SHA256\
             &X-Amz-Credential={}%2F{}%2F{region}%2Fdsql%2Faws4_request&X-Amz-Date={date}\
             &X-Amz-Expires={}&X-Amz-SignedHeaders=host",
            action(user),
            self.access_key,
            &date[..8],
            lives.as_secs(),
        );
        let signature = sign(&self.secret, host, &query, &date, region);
        let signature = hex(&signature.finalize().into_bytes());
        format!("{host}/?{query}&X-Amz-Signature={signature}")
    }
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials")
            .field("access_key", &self.access_key)
            .finish_non_exhaustive()
    }
}

/// What a token must be signed for.
pub(crate) struct Expected<'a> {
    pub(crate) credentials: &'a Credentials,
    /// The host that the client connected to, from its TLS greeting.
    pub(crate) host: &'a str,
    pub(crate) region: &'a str,
    pub(crate) user: &'a str,
    pub(crate) now: SystemTime,
}

/// Why a token is not accepted. DSQL says little, so that it tells an intruder
/// little: all but the last are `access denied`, with a hint at most.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("unable to accept connection, access denied")]
    Denied,
    #[error("unable to accept connection, access denied")]
    Expired { hint: String },
    #[error("Wrong user to action mapping. user: {user}, action: {action}")]
    WrongAction { user: String, action: String },
}

impl Refusal {
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Refusal::Expired { hint } => Some(hint.clone()),
            _ => None,
        }
    }
}

/// Checks a token.
pub(crate) fn check(token: &str, expected: &Expected<'_>) -> Result<(), Refusal> {
    let token = Token::read(token).ok_or(Refusal::Denied)?;
    if token.value("Action") != Some(action(expected.user)) {
        return Err(Refusal::WrongAction {
            user: expected.user.to_owned(),
            action: token.value("Action").unwrap_or_default().to_owned(),
        });
    }
    // A client may name the port, and need not name the root's dot.
    let host = token.host.split(':').next().unwrap_or_default();
    if !host.eq_ignore_ascii_case(expected.host) {
        return Err(Refusal::Denied);
    }
    let signed = token.signed().ok_or(Refusal::Denied)?;
    if signed.region != expected.region
        || signed.access_key != expected.credentials.access_key
        || !token.signature_fits(&signed, &expected.credentials.secret)
    {
        return Err(Refusal::Denied);
    }
    let now = since_1970(expected.now);
    if signed.at_s > now + SKEW_S {
        return Err(Refusal::Denied);
    }
    if now > signed.at_s + signed.lives_s {
        return Err(Refusal::Expired {
            hint: format!(
                "Signature expired: {} is now earlier than {} ({} - {} sec.)",
                signed.date,
                basic_format(now.saturating_sub(signed.lives_s)),
                basic_format(now),
                signed.lives_s
            ),
        });
    }
    Ok(())
}

/// What a user's token must be for.
fn action(user: &str) -> &'static str {
    if user == "admin" {
        "DbConnectAdmin"
    } else {
        "DbConnect"
    }
}

fn since_1970(at: SystemTime) -> u64 {
    let since = at.duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or(Duration::ZERO).as_secs()
}

/// A token in its parts. Values are decoded for reading; the signature is over
/// the pairs as they were sent.
struct Token<'a> {
    host: &'a str,
    /// Name, value as sent, value decoded.
    pairs: Vec<(&'a str, &'a str, String)>,
}

/// What the signature is about.
struct Signed<'a> {
    access_key: &'a str,
    region: &'a str,
    date: &'a str,
    at_s: u64,
    lives_s: u64,
}

impl<'a> Token<'a> {
    fn read(token: &'a str) -> Option<Token<'a>> {
        let token = token.strip_prefix("https://").unwrap_or(token);
        let (host, query) = token.split_once("/?")?;
        let pairs = query
            .split('&')
            .map(|pair| {
                let (name, value) = pair.split_once('=')?;
                Some((name, value, decoded(value)?))
            })
            .collect::<Option<Vec<_>>>()?;
        let mut names: Vec<_> = pairs.iter().map(|(name, ..)| *name).collect();
        names.sort_unstable();
        names.dedup();
        // A name that comes twice could be read one way and signed another.
        (names.len() == pairs.len()).then_some(Token { host, pairs })
    }

    fn value(&self, wanted: &str) -> Option<&str> {
        let pair = self.pairs.iter().find(|(name, ..)| *name == wanted);
        pair.map(|(.., value)| value.as_str())
    }

    fn signed(&self) -> Option<Signed<'_>> {
        if self.value("X-Amz-Algorithm")? != "AWS4-HMAC-SHA256"
            || self.value("X-Amz-SignedHeaders")? != "host"
        {
            return None;
        }
        let (access_key, scope) = self.value("X-Amz-Credential")?.split_once('/')?;
        let mut parts = scope.split('/');
        let (day, region) = (parts.next()?, parts.next()?);
        if parts.collect::<Vec<_>>() != ["dsql", "aws4_request"] {
            return None;
        }
        let date = self.value("X-Amz-Date")?;
        let at_s = seconds(date)?;
        let lives_s: u64 = self.value("X-Amz-Expires")?.parse().ok()?;
        (date.starts_with(day) && (1..=LONGEST_S).contains(&lives_s)).then_some(Signed {
            access_key,
            region,
            date,
            at_s,
            lives_s,
        })
    }

    fn signature_fits(&self, signed: &Signed<'_>, secret: &str) -> bool {
        let Some(signature) = self.value("X-Amz-Signature").and_then(unhex) else {
            return false;
        };
        let mut pairs: Vec<_> = self
            .pairs
            .iter()
            .filter(|(name, ..)| *name != "X-Amz-Signature")
            .map(|(name, sent, _)| (*name, *sent))
            .collect();
        pairs.sort_unstable();
        let pairs: Vec<_> = pairs
            .iter()
            .map(|(name, sent)| format!("{name}={sent}"))
            .collect();
        let query = pairs.join("&");
        let mac = sign(secret, self.host, &query, signed.date, signed.region);
        // In constant time.
        mac.verify_slice(&signature).is_ok()
    }
}

/// The signature of a request for `host` with this query, its pairs sorted.
fn sign(secret: &str, host: &str, query: &str, date: &str, region: &str) -> Hmac<Sha256> {
    let nothing = hex(&Sha256::digest(b""));
    let request = format!("GET\n/\n{query}\nhost:{host}\n\nhost\n{nothing}");
    let day = date.get(..8).unwrap_or_default();
    let to_sign = format!(
        "AWS4-HMAC-SHA256\n{date}\n{day}/{region}/dsql/aws4_request\n{}",
        hex(&Sha256::digest(request.as_bytes()))
    );
    let mut key = hmac(format!("AWS4{secret}").as_bytes(), day.as_bytes());
    for part in [region, "dsql", "aws4_request"] {
        key = hmac(&key.finalize().into_bytes(), part.as_bytes());
    }
    hmac(&key.finalize().into_bytes(), to_sign.as_bytes())
}

fn hmac(key: &[u8], message: &[u8]) -> Hmac<Sha256> {
    let mut mac = match Hmac::<Sha256>::new_from_slice(key) {
        Ok(mac) => mac,
        // HMAC takes keys of every length.
        Err(_) => unreachable!(),
    };
    mac.update(message);
    mac
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    digits
        .chunks_exact(2)
        .map(|pair| {
            let pair = std::str::from_utf8(pair).ok()?;
            u8::from_str_radix(pair, 16).ok()
        })
        .collect()
}

/// Percent-decoding.
fn decoded(value: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let [first, behind @ ..] = rest {
        if *first == b'%' {
            let (pair, behind) = behind.split_at_checked(2)?;
            bytes.extend(unhex(std::str::from_utf8(pair).ok()?)?);
            rest = behind;
        } else {
            bytes.push(*first);
            rest = behind;
        }
    }
    String::from_utf8(bytes).ok()
}

/// Seconds since 1970 of a date such as `20260101T000000Z`.
fn seconds(date: &str) -> Option<u64> {
    let digits = date.as_bytes();
    if digits.len() != 16 || digits[8] != b'T' || digits[15] != b'Z' {
        return None;
    }
    let number = |from: usize, to: usize| -> Option<u64> {
        let part = date.get(from..to)?;
        part.bytes()
            .all(|digit| digit.is_ascii_digit())
            .then(|| part.parse().ok())?
    };
    let (year, month, day) = (number(0, 4)?, number(4, 6)?, number(6, 8)?);
    let (hour, minute, second) = (number(9, 11)?, number(11, 13)?, number(13, 15)?);
    if year < 1970
        || !(1..=12).contains(&month)
        || !(1..=31).contains(&day)
        || hour > 23
        || minute > 59
        || second > 60
    {
        return None;
    }
    // Days of a calendar whose year begins in March, so that a leap day is
    // the last of its year.
    let (year, month) = if month <= 2 {
        (year - 1, month + 9)
    } else {
        (year, month - 3)
    };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1;
    let since_1970 = days.checked_sub(719_468)?;
    Some(((since_1970 * 24 + hour) * 60 + minute) * 60 + second)
}

/// The date of these seconds since 1970, such as `20260101T000000Z`.
fn basic_format(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400 + 719_468, seconds % 86_400);
    // 400 years have always 146,097 days.
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (year, month) = if month < 10 {
        (era * 400 + year, month + 3)
    } else {
        (era * 400 + year + 1, month - 9)
    };
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_go_back_and_forth() {
        for (date, s) in [
            ("19700101T000000Z", 0),
            ("20000229T120000Z", 951_825_600),
            ("20260101T000000Z", 1_767_225_600),
            ("20281231T235959Z", 1_861_919_999),
        ] {
            assert_eq!(seconds(date), Some(s));
            assert_eq!(basic_format(s), date);
        }
        for date in [
            "",
            "20261301T000000Z",
            "2026010xT000000Z",
            "+0260101T000000Z",
        ] {
            assert_eq!(seconds(date), None, "{date}");
        }
    }

    /// Signed by another implementation of Signature Version 4, as the SDKs do:
    /// by `AKIDSIMULATOR` with the secret below, at the beginning of 2026, for
    /// 900 seconds.
    const ADMIN: &str = "localhost/?Action=DbConnectAdmin&X-Amz-Algorithm=AWS4-HMAC-SHA256\
        &X-Amz-Credential=AKIDSIMULATOR%2F20260101%2Fus-east-1%2Fdsql%2Faws4_request\
        &X-Amz-Date=20260101T000000Z&X-Amz-Expires=900&X-Amz-SignedHeaders=host\
        &X-Amz-Signature=845784f69353b5c436ee9fd21e67addbeb143499dbefbc2c6090863874be6c32";

    /// As above, for a role, by a session with a token of its own.
    const ROLE: &str = "localhost/?Action=DbConnect&X-Amz-Algorithm=AWS4-HMAC-SHA256\
        &X-Amz-Credential=AKIDSIMULATOR%2F20260101%2Fus-east-1%2Fdsql%2Faws4_request\
        &X-Amz-Date=20260101T000000Z&X-Amz-Expires=900\
        &X-Amz-Security-Token=session%2Ftoken%2B%3D%3D&X-Amz-SignedHeaders=host\
        &X-Amz-Signature=89c3806287b611bca3e39f51b3b3fa94e31533e79bfbf5a837c934bf5555705a";

    const SIGNED_AT: u64 = 1_767_225_600;

    struct Case {
        host: &'static str,
        region: &'static str,
        user: &'static str,
        access_key: &'static str,
        secret: &'static str,
        age_s: i64,
    }

    const FITS: Case = Case {
        host: "localhost",
        region: "us-east-1",
        user: "admin",
        access_key: "AKIDSIMULATOR",
        secret: "wJalrXUtnFEMI/K7MDENG",
        age_s: 10,
    };

    impl Case {
        fn check(&self, token: &str) -> Result<(), Refusal> {
            let credentials = Credentials::new(self.access_key, self.secret);
            let now = Duration::from_secs(SIGNED_AT.strict_add_signed(self.age_s));
            check(
                token,
                &Expected {
                    credentials: &credentials,
                    host: self.host,
                    region: self.region,
                    user: self.user,
                    now: SystemTime::UNIX_EPOCH + now,
                },
            )
        }
    }

    #[test]
    fn a_token_lets_in_whom_it_was_signed_for() {
        assert_eq!(FITS.check(ADMIN), Ok(()));
        assert_eq!(FITS.check(&format!("https://{ADMIN}")), Ok(()));
        let last_second = Case { age_s: 900, ..FITS };
        assert_eq!(last_second.check(ADMIN), Ok(()));
        let clock_behind = Case {
            age_s: -200,
            ..FITS
        };
        assert_eq!(clock_behind.check(ADMIN), Ok(()));
        let role = Case {
            user: "reader",
            ..FITS
        };
        assert_eq!(role.check(ROLE), Ok(()));
    }

    #[test]
    fn a_token_is_signed_as_others_sign_it() {
        let credentials = Credentials::new("AKIDSIMULATOR", "wJalrXUtnFEMI/K7MDENG");
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(SIGNED_AT);
        let lives = Duration::from_secs(900);
        assert_eq!(
            credentials.token("localhost", "us-east-1", "admin", at, lives),
            ADMIN
        );
        let role = credentials.token("localhost", "us-east-1", "reader", at, lives);
        assert!(role.starts_with("localhost/?Action=DbConnect&"));
        let reader = Case {
            user: "reader",
            ..FITS
        };
        assert_eq!(reader.check(&role), Ok(()));
    }

    #[test]
    fn a_token_for_another_user_region_host_or_key_is_refused() {
        let wrong_action = Case {
            user: "reader",
            ..FITS
        };
        assert_eq!(
            wrong_action.check(ADMIN).unwrap_err().to_string(),
            "Wrong user to action mapping. user: reader, action: DbConnectAdmin"
        );
        assert_eq!(
            FITS.check(ROLE).unwrap_err().to_string(),
            "Wrong user to action mapping. user: admin, action: DbConnect"
        );
        for case in [
            Case {
                host: "127.0.0.1",
                ..FITS
            },
            Case {
                region: "us-east-2",
                ..FITS
            },
            Case {
                access_key: "AKIDOTHER",
                ..FITS
            },
            Case {
                secret: "other",
                ..FITS
            },
            Case {
                age_s: -400,
                ..FITS
            },
        ] {
            assert_eq!(case.check(ADMIN), Err(Refusal::Denied));
        }
    }

    #[test]
    fn an_expired_token_is_refused_with_a_hint() {
        let late = Case { age_s: 901, ..FITS };
        let refusal = late.check(ADMIN).unwrap_err();
        assert_eq!(
            refusal.to_string(),
            "unable to accept connection, access denied"
        );
        assert_eq!(
            refusal.hint().unwrap(),
            "Signature expired: 20260101T000000Z is now earlier than 20260101T000001Z \
             (20260101T001501Z - 900 sec.)"
        );
    }

    #[test]
    fn a_token_that_was_changed_is_refused() {
        for (from, to) in [
            ("Expires=900", "Expires=901"),
            ("SignedHeaders=host", "SignedHeaders=host%3Bx"),
            ("HMAC-SHA256", "HMAC-SHA512"),
            ("Date=20260101T000000Z", "Date=20260101T000001Z"),
            ("%2Fdsql%2F", "%2Frds%2F"),
            ("Signature=8457", "Signature=8458"),
            ("Signature=8457", "Signature="),
            ("&X-Amz-Signature=", "&X-Amz-Signature=00&X-Amz-Signature="),
            ("/?", "?"),
            ("&X-Amz-Date=20260101T000000Z", ""),
        ] {
            let changed = ADMIN.replacen(from, to, 1);
            assert_ne!(changed, ADMIN);
            assert_eq!(FITS.check(&changed), Err(Refusal::Denied), "{changed}");
        }
        assert_eq!(FITS.check(""), Err(Refusal::Denied));
        assert_eq!(FITS.check("secret"), Err(Refusal::Denied));
    }

    #[test]
    fn percent_decoding_refuses_what_is_cut_off() {
        assert_eq!(decoded("a%2Fb%3d").as_deref(), Some("a/b="));
        assert_eq!(decoded("a%2"), None);
        assert_eq!(decoded("a%zz"), None);
        assert_eq!(decoded("%ff"), None);
    }
}
