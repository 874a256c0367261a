//! The last line before a file that people share: no password passes.

/// A connection URL or string without what nobody may read.
///
/// The targets keep passwords in types that can't be printed; this is the last
/// line before a file that people share.
pub(crate) fn without_password(url: &str) -> String {
    let secret = |pair: &str| {
        let key = pair.split('=').next().unwrap_or_default().trim();
        ["password", "sslpassword", "token"].contains(&key.to_ascii_lowercase().as_str())
    };
    let Some((scheme, rest)) = url.split_once("://") else {
        let kept = url.split(' ').filter(|pair| !secret(pair));
        return kept.collect::<Vec<_>>().join(" ");
    };
    let (place, query) = match rest.split_once('?') {
        Some((place, query)) => (place, Some(query)),
        None => (rest, None),
    };
    // The last @ ends the user's part, also when a password holds one.
    let place = match place.rsplit_once('@') {
        Some((user, host)) => match user.split_once(':') {
            Some((user, _)) => format!("{user}@{host}"),
            None => place.to_owned(),
        },
        None => place.to_owned(),
    };
    let kept: Vec<&str> = query
        .into_iter()
        .flat_map(|query| query.split('&'))
        .filter(|pair| !secret(pair))
        .collect();
    if kept.is_empty() {
        format!("{scheme}://{place}")
    } else {
        format!("{scheme}://{place}?{}", kept.join("&"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_reaches_the_summary() {
        for (url, shown) in [
            ("sim:us-pair-workstation", "sim:us-pair-workstation"),
            ("postgres://u:s3cret@h:5432/db", "postgres://u@h:5432/db"),
            ("postgres://u:s3@c/ret@h/db", "postgres://u@h/db"),
            (
                "postgres://u@h/db?sslmode=require",
                "postgres://u@h/db?sslmode=require",
            ),
            ("postgres://h/db?password=s3cret&a=b", "postgres://h/db?a=b"),
            ("postgres://h/db?password=s3cret", "postgres://h/db"),
            ("host=h password=s3cret user=u", "host=h user=u"),
            (
                "dsql://one.example,two.example",
                "dsql://one.example,two.example",
            ),
        ] {
            assert_eq!(without_password(url), shown);
        }
    }
}
