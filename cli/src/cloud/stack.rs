//! CloudFormation stacks: found by name, deleted, and seen gone.

use std::collections::BTreeMap;
use std::time::SystemTime;

use aws_sdk_cloudformation::types::{Stack as Told, StackStatus};

use super::Cloud;
use super::error::{CloudError, Kind, found};

/// A stack that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stack {
    /// Its name.
    pub name: String,
    /// The account's name for it; a deleted stack is known by this alone.
    pub arn: String,
    /// As the service says, such as `CREATE_COMPLETE`.
    pub status: String,
    /// Why, where the service says so.
    pub reason: Option<String>,
    /// When it was created, UTC.
    pub created_utc: String,
    /// Whether it refuses to be deleted.
    pub protected: bool,
}

impl Stack {
    fn of(told: &Told) -> Stack {
        let created = told.creation_time().copied();
        Stack {
            name: told.stack_name().unwrap_or_default().to_owned(),
            arn: told.stack_id().unwrap_or_default().to_owned(),
            status: told
                .stack_status()
                .map_or("-", StackStatus::as_str)
                .to_owned(),
            reason: told.stack_status_reason().map(str::to_owned),
            protected: told.enable_termination_protection().unwrap_or(false),
            created_utc: created
                .and_then(|at| SystemTime::try_from(at).ok())
                .map_or_else(|| "-".to_owned(), report::utc),
        }
    }

    fn is_gone(&self) -> bool {
        self.status == StackStatus::DeleteComplete.as_str()
    }

    /// Whether its deletion was tried and did not succeed.
    pub fn delete_failed(&self) -> bool {
        self.status == StackStatus::DeleteFailed.as_str()
    }
}

/// A stack by its name or ARN, unless it is gone.
///
/// # Errors
/// When the service could not be asked.
pub async fn get(cloud: &Cloud, region: &str, name: &str) -> Result<Option<Stack>, CloudError> {
    let answer = cloud
        .stacks(region)
        .describe_stacks()
        .stack_name(name)
        .send()
        .await
        .map_err(|e| CloudError::of("cloudformation DescribeStacks", region, &e));
    let stack = found(answer)?.and_then(|told| told.stacks().first().map(Stack::of));
    Ok(stack.filter(|stack| !stack.is_gone()))
}

/// The outputs of a stack, by key; `None` when there is no such stack.
///
/// # Errors
/// When the service could not be asked.
pub async fn outputs(
    cloud: &Cloud,
    region: &str,
    name: &str,
) -> Result<Option<BTreeMap<String, String>>, CloudError> {
    let answer = cloud
        .stacks(region)
        .describe_stacks()
        .stack_name(name)
        .send()
        .await
        .map_err(|e| CloudError::of("cloudformation DescribeStacks", region, &e));
    let told = found(answer)?.and_then(|told| told.stacks().first().cloned());
    let told = told.filter(|told| !Stack::of(told).is_gone());
    Ok(told.map(|told| {
        let outputs = told.outputs().iter();
        outputs
            .filter_map(|output| {
                let (key, value) = (output.output_key()?, output.output_value()?);
                Some((key.to_owned(), value.to_owned()))
            })
            .collect()
    }))
}

/// The names of all stacks of a region that are not gone.
///
/// # Errors
/// When the service could not be asked.
pub async fn names(cloud: &Cloud, region: &str) -> Result<Vec<String>, CloudError> {
    let mut pages = cloud
        .stacks(region)
        .describe_stacks()
        .into_paginator()
        .send();
    let mut names = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|e| CloudError::of("cloudformation DescribeStacks", region, &e))?;
        let living = page
            .stacks()
            .iter()
            .map(Stack::of)
            .filter(|stack| !stack.is_gone());
        names.extend(living.map(|stack| stack.name));
    }
    Ok(names)
}

/// Asks for a stack's deletion.
///
/// # Errors
/// When the service refused.
pub async fn delete(cloud: &Cloud, region: &str, stack: &Stack) -> Result<(), CloudError> {
    let sent = cloud
        .stacks(region)
        .delete_stack()
        .stack_name(&stack.arn)
        .send()
        .await;
    match sent.map_err(|e| CloudError::of("cloudformation DeleteStack", region, &e)) {
        Err(error) if error.kind != Kind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Whether a resource's name says that it belongs to a stack: it begins with
/// the stack's name and a hyphen, and no other stack's longer name fits it.
/// `dsql-fabric-2-worker` is of `dsql-fabric-2`, if there is such a stack.
pub fn owns(stack: &str, resource: &str, all: &[String]) -> bool {
    let under = |owner: &str| {
        resource
            .strip_prefix(owner)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    under(stack)
        && !all
            .iter()
            .any(|other| other.len() > stack.len() && under(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_stack_keeps_its_own() {
        let all = ["fab".to_owned(), "fab-2".to_owned(), "other".to_owned()];
        assert!(owns("fab", "fab-worker", &all));
        assert!(owns("fab", "fab", &all));
        assert!(!owns("fab", "fab-2-worker", &all));
        assert!(!owns("fab", "fab-2", &all));
        assert!(!owns("fab", "fabric-worker", &all));
        assert!(owns("fab-2", "fab-2-worker", &all));
        assert!(owns("fab", "fab-2-worker", &["fab".to_owned()]));
    }
}
