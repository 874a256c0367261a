//! What AWS answers when it does not do as asked: one line, and whether another
//! try may help.
//!
//! The SDK's own text is a chain of many hundred characters in which the
//! service's message is lost, and which may quote what was signed: of an answer
//! to a bad signature only the first line is kept, because the lines behind it
//! repeat the request with the session's token.

use std::error::Error;

use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use fleet::StoreError;

/// Characters of a service's message that are kept.
const MOST: usize = 300;

/// What was asked of whom.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    /// The permission that it needs, such as `dynamodb:UpdateItem`.
    pub(crate) action: &'static str,
    /// What it was asked of: `table`, `queue`, `bucket`, `secret`, `cluster`.
    pub(crate) kind: &'static str,
    /// Its name.
    pub(crate) name: &'a str,
    /// Where.
    pub(crate) region: &'a str,
}

impl Call<'_> {
    /// The error of a call that ended with `error`.
    pub(crate) fn failed<E, R>(&self, error: &SdkError<E, R>) -> StoreError
    where
        E: Error + ProvideErrorMetadata + 'static,
        R: std::fmt::Debug + 'static,
    {
        match error {
            SdkError::ServiceError(answer) => {
                let code = answer.err().code().unwrap_or("an error without a code");
                let message = answer.err().message().unwrap_or_default();
                self.answered(code, message)
            }
            SdkError::TimeoutError(_) => self.busy("no answer in time"),
            other => self.unsent(other),
        }
    }

    /// The error of a call that the service answered with a code and a message.
    pub(crate) fn answered(&self, code: &str, message: &str) -> StoreError {
        let message = one_line(message);
        let why = match message.as_str() {
            "" => code.to_owned(),
            message => format!("{code}: {message}"),
        };
        if is_transient(code) {
            return self.busy(&why);
        }
        let Call { action, kind, .. } = self;
        let remedy = match code {
            "AccessDenied" | "AccessDeniedException" => {
                format!("; the role's policy must allow {action} on this {kind}")
            }
            "ResourceNotFoundException"
            | "NoSuchBucket"
            | "NotFound"
            | "QueueDoesNotExist"
            | "AWS.SimpleQueueService.NonExistentQueue" => match *kind {
                "secret" => "; create it, or correct its name in the sweep".to_owned(),
                _ => "; deploy the stack there, or correct its name".to_owned(),
            },
            "UnrecognizedClientException"
            | "InvalidClientTokenId"
            | "InvalidAccessKeyId"
            | "ExpiredToken"
            | "ExpiredTokenException" => "; the AWS credentials do not hold".to_owned(),
            "InvalidSignatureException" | "SignatureDoesNotMatch" | "RequestTimeTooSkewed" => {
                "; check the secret access key and this machine's clock".to_owned()
            }
            _ => String::new(),
        };
        self.refused(&format!("{why}{remedy}"))
    }

    /// The error of a call that got no answer. The innermost cause says most.
    fn unsent(&self, error: &(dyn Error + 'static)) -> StoreError {
        let mut cause = error;
        loop {
            if let Some(credentials) = cause.downcast_ref::<CredentialsError>() {
                return match credentials {
                    // A look-up that failed for a moment.
                    CredentialsError::ProviderTimedOut(_) | CredentialsError::ProviderError(_) => {
                        self.busy("the AWS credentials could not be looked up")
                    }
                    _ => self.refused(
                        "no AWS credentials were found; set AWS_PROFILE, or AWS_ACCESS_KEY_ID and \
                         AWS_SECRET_ACCESS_KEY, or run under a role",
                    ),
                };
            }
            match cause.source() {
                Some(source) => cause = source,
                None => return self.busy(&format!("no answer: {}", one_line(&cause.to_string()))),
            }
        }
    }

    pub(crate) fn busy(&self, why: &str) -> StoreError {
        StoreError::Busy(self.line(why))
    }

    pub(crate) fn refused(&self, why: &str) -> StoreError {
        StoreError::Refused(self.line(why))
    }

    fn line(&self, why: &str) -> String {
        let Call {
            action,
            kind,
            name,
            region,
        } = self;
        format!("{action} on {kind} {name} in {region}: {why}")
    }
}

/// Whether a service says by its code that it can't just now.
fn is_transient(code: &str) -> bool {
    // SQS puts its old names behind a prefix.
    let code = code.rsplit('.').next().unwrap_or(code);
    matches!(
        code,
        "ProvisionedThroughputExceededException"
            | "RequestLimitExceeded"
            | "ThrottlingException"
            | "Throttling"
            | "ThrottledException"
            | "RequestThrottled"
            | "RequestThrottledException"
            | "TooManyRequestsException"
            | "SlowDown"
            | "KmsThrottled"
            | "TransactionConflictException"
            | "TransactionInProgressException"
            | "ReplicatedWriteConflictException"
            | "OperationAborted"
            | "InternalServerError"
            | "InternalServerException"
            | "InternalServiceError"
            | "InternalServiceFault"
            | "InternalFailure"
            | "InternalError"
            | "ServiceUnavailable"
            | "ServiceUnavailableException"
            | "RequestTimeout"
            | "RequestTimeoutException"
            | "an error without a code"
    )
}

/// The first line, without control characters, cut where it becomes a page.
pub(crate) fn one_line(text: &str) -> String {
    let first = text.trim().lines().next().unwrap_or_default();
    let words: Vec<&str> = first.split_whitespace().collect();
    let line = words.join(" ");
    match line.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: Call<'static> = Call {
        action: "dynamodb:UpdateItem",
        kind: "table",
        name: "fabric",
        region: "us-east-1",
    };

    #[test]
    fn codes_carry_the_decision() {
        for code in [
            "ThrottlingException",
            "ProvisionedThroughputExceededException",
            "TransactionConflictException",
            "InternalServerError",
            "AWS.SimpleQueueService.RequestThrottled",
            "SlowDown",
        ] {
            assert!(CALL.answered(code, "later").is_transient(), "{code}");
        }
        for code in [
            "AccessDeniedException",
            "ResourceNotFoundException",
            "ValidationException",
            "UnrecognizedClientException",
            "ExpiredTokenException",
            "ItemCollectionSizeLimitExceededException",
        ] {
            assert!(!CALL.answered(code, "never").is_transient(), "{code}");
        }
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        let denied = CALL.answered("AccessDeniedException", "User is not authorized");
        assert_eq!(
            denied.to_string(),
            "dynamodb:UpdateItem on table fabric in us-east-1: AccessDeniedException: User is not \
             authorized; the role's policy must allow dynamodb:UpdateItem on this table"
        );
        let missing = CALL.answered("ResourceNotFoundException", "Requested resource not found");
        assert!(
            missing
                .to_string()
                .ends_with("deploy the stack there, or correct its name")
        );
    }

    #[test]
    fn what_was_signed_is_not_repeated() {
        let message = "The request signature we calculated does not match.\n\nThe Canonical String \
                       for this request should have been\n'POST\nx-amz-security-token:MARKED'";
        let line = CALL
            .answered("InvalidSignatureException", message)
            .to_string();
        assert!(!line.contains("MARKED") && !line.contains('\n'), "{line}");
        let long = CALL
            .answered("ValidationException", &"x".repeat(5_000))
            .to_string();
        assert!(long.chars().count() < 450);
    }
}
