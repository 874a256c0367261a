//! URLs of controls that are kept in Secrets Manager.
//!
//! A secret is the URL itself, or JSON with the URL under `url`. It is handed on
//! in a type that cannot be printed, and no error repeats any of it.

use serde_json::Value;
use target::Secret;

use crate::clients::Clients;
use crate::errors::Call;

/// The URL in a secret; `id` is its name or ARN, `region` the one that is asked
/// where an ARN does not say another.
///
/// # Errors
/// In one line, without the secret: why it could not be read, or what it should
/// hold.
pub(crate) async fn url(clients: &Clients, id: &str, region: &str) -> Result<Secret, String> {
    let region = region_of(id).unwrap_or(region);
    let call = Call {
        action: "secretsmanager:GetSecretValue",
        kind: "secret",
        name: id,
        region,
    };
    let client = clients.secrets(region).await;
    let answer = client.get_secret_value().secret_id(id).send().await;
    let answer = answer.map_err(|error| call.failed(&error).to_string())?;
    let found = answer.secret_string().and_then(url_in);
    found.ok_or_else(|| {
        call.refused("it must hold a postgres:// or dsql:// URL, or JSON with one under `url`")
            .to_string()
    })
}

/// The region in an ARN: `arn:aws:secretsmanager:REGION:ACCOUNT:secret:NAME`.
fn region_of(id: &str) -> Option<&str> {
    let mut parts = id.split(':');
    (parts.next() == Some("arn")).then_some(())?;
    parts.nth(2).filter(|region| !region.is_empty())
}

fn url_in(text: &str) -> Option<Secret> {
    let text = text.trim();
    let url = match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(members)) => members.get("url")?.as_str()?.trim().to_owned(),
        _ => text.to_owned(),
    };
    let known = ["postgres://", "postgresql://", "dsql://"];
    let known = known.iter().any(|scheme| url.starts_with(scheme));
    known.then(|| Secret::new(url))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_a_url_or_holds_one() {
        for text in [
            "postgres://u:MARKED@h/db",
            " postgres://u:MARKED@h/db\n",
            r#"{"url": "postgres://u:MARKED@h/db", "username": "u"}"#,
        ] {
            let url = url_in(text).unwrap();
            assert_eq!(url.expose(), "postgres://u:MARKED@h/db");
            assert!(!format!("{url:?}").contains("MARKED"));
        }
        for text in [
            "",
            "MARKED",
            "{}",
            r#"{"url": 1}"#,
            r#"{"password": "MARKED"}"#,
            "[1]",
        ] {
            assert!(url_in(text).is_none(), "{text}");
        }
    }

    #[test]
    fn an_arn_says_its_region() {
        let arn = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:control-AbCdEf";
        assert_eq!(region_of(arn), Some("eu-west-1"));
        assert_eq!(region_of("control"), None);
        assert_eq!(region_of("arn:aws"), None);
    }
}
