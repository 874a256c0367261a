//! What AWS answers when it does not do as asked: one line for the user and a
//! kind for the code. The SDK's own text is a chain of hundreds of characters in
//! which the service's message is lost.

use std::error::Error;
use std::fmt::Debug;

use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_dsql::error::{ProvideErrorMetadata, SdkError};

/// A call that failed.
#[derive(Debug, thiserror::Error)]
#[error("{call} in {region}: {why}{}", kind.remedy())]
pub struct CloudError {
    /// Service and operation, such as `dsql CreateCluster`.
    pub call: &'static str,
    /// Where.
    pub region: String,
    /// What is to be made of it.
    pub kind: Kind,
    /// The service's code and message, or why it was not reached.
    pub why: String,
}

/// What a failure means for what comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// There is no such thing.
    NotFound,
    /// No credentials, or some that do not hold.
    Credentials,
    /// The credentials may not do this.
    Denied,
    /// The account has as many as it may have.
    Quota,
    /// Something else is being done to it; later it may work.
    Conflict,
    /// Too much was asked for at once, more often than the SDK's retries.
    Throttled,
    /// The service does not know the operation: a stand-in's gap.
    Unsupported,
    /// Nothing answered, or what answered had failed itself: whether the call
    /// took effect is not known.
    Unknown,
    /// The service understood and refused.
    Refused,
}

impl Kind {
    fn remedy(self) -> &'static str {
        match self {
            Kind::Credentials => {
                "; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (with AWS_SESSION_TOKEN for a \
                 role), or AWS_PROFILE; after `aws sso login`: \
                 eval \"$(aws configure export-credentials --format env)\""
            }
            Kind::Denied => "; the credentials' policy must allow it",
            Kind::Quota => "; delete what is not needed, or ask AWS for a higher quota",
            Kind::Unknown => "; check the network, the region's name and AWS_ENDPOINT_URL",
            _ => "",
        }
    }

    fn of_code(code: &str, message: &str) -> Kind {
        match code {
            "ResourceNotFoundException"
            | "NoSuchBucket"
            | "NotFound"
            | "QueueDoesNotExist"
            | "AWS.SimpleQueueService.NonExistentQueue" => Kind::NotFound,
            // CloudFormation has no code of its own for it.
            "ValidationError" if message.contains("does not exist") => Kind::NotFound,
            "UnrecognizedClientException"
            | "InvalidClientTokenId"
            | "InvalidAccessKeyId"
            | "InvalidSignatureException"
            | "SignatureDoesNotMatch"
            | "MissingAuthenticationToken"
            | "ExpiredToken"
            | "ExpiredTokenException" => Kind::Credentials,
            "AccessDenied" | "AccessDeniedException" | "UnauthorizedOperation" => Kind::Denied,
            "ServiceQuotaExceededException" | "LimitExceededException" => Kind::Quota,
            "ConflictException" | "OperationAbortedException" | "ResourceInUseException" => {
                Kind::Conflict
            }
            "Throttling" | "ThrottlingException" | "TooManyRequestsException" | "SlowDown" => {
                Kind::Throttled
            }
            "UnknownOperationException"
            | "InvalidAction"
            | "NotImplemented"
            | "UnsupportedOperation" => Kind::Unsupported,
            "InternalServerException"
            | "InternalFailure"
            | "InternalError"
            | "ServiceUnavailable" => Kind::Unknown,
            _ => Kind::Refused,
        }
    }
}

impl CloudError {
    /// Makes one of what the SDK returned.
    pub fn of<E, R>(call: &'static str, region: &str, error: &SdkError<E, R>) -> CloudError
    where
        E: Error + ProvideErrorMetadata + 'static,
        R: Debug + 'static,
    {
        let (kind, why) = match error {
            SdkError::ServiceError(answer) => {
                let code = answer.err().code().unwrap_or("no code");
                let message = answer.err().message().unwrap_or_default().trim();
                let why = if message.is_empty() {
                    code.to_owned()
                } else {
                    format!("{code}: {message}")
                };
                let kind = match answer.err().code() {
                    Some(code) => Kind::of_code(code, message),
                    None => Kind::Unknown,
                };
                (kind, why)
            }
            SdkError::TimeoutError(_) => (Kind::Unknown, "no answer in time".to_owned()),
            other => of_chain(other),
        };
        CloudError {
            call,
            region: region.to_owned(),
            kind,
            why: one_line(&why),
        }
    }

    /// A call that answered something that cannot be so.
    pub fn odd(call: &'static str, region: &str, why: impl Into<String>) -> CloudError {
        CloudError {
            call,
            region: region.to_owned(),
            kind: Kind::Refused,
            why: why.into(),
        }
    }

    /// Whether the call may have taken effect all the same.
    pub fn is_unknown(&self) -> bool {
        self.kind == Kind::Unknown
    }
}

/// Of an error that is no answer the innermost cause says most.
fn of_chain(error: &(dyn Error + 'static)) -> (Kind, String) {
    let mut cause = error;
    let mut kind = Kind::Unknown;
    loop {
        if let Some(credentials) = cause.downcast_ref::<CredentialsError>() {
            kind = Kind::Credentials;
            if matches!(credentials, CredentialsError::CredentialsNotLoaded(_)) {
                return (kind, "no credentials were found".to_owned());
            }
        }
        if let Some(source) = cause.source() {
            cause = source;
            continue;
        }
        let innermost = cause.to_string();
        let why = match kind {
            Kind::Credentials => format!("no credentials: {}", innermost.trim_end_matches('.')),
            _ => innermost,
        };
        return (kind, why);
    }
}

/// The text on one line, cut where it becomes a page.
fn one_line(text: &str) -> String {
    const MOST: usize = 300;
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

impl From<CloudError> for crate::failure::Failure {
    fn from(error: CloudError) -> crate::failure::Failure {
        crate::failure::Failure::Other(error.to_string())
    }
}

/// Treats "there is no such thing" as an answer.
pub fn found<T>(result: Result<T, CloudError>) -> Result<Option<T>, CloudError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind == Kind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
