//! The log groups of a stack's functions. A function that ends after its stack
//! is gone makes its group again, so they are looked for by name.

use super::Cloud;
use super::error::{CloudError, Kind};
use super::stack;

const OF_FUNCTIONS: &str = "/aws/lambda/";

/// A stack's log groups in a region.
///
/// # Errors
/// When the service could not be asked.
pub async fn of_stack(
    cloud: &Cloud,
    region: &str,
    name: &str,
    stacks: &[String],
) -> Result<Vec<String>, CloudError> {
    let mut pages = cloud
        .logs(region)
        .describe_log_groups()
        .log_group_name_prefix(format!("{OF_FUNCTIONS}{name}-"))
        .into_paginator()
        .send();
    let mut groups = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|e| CloudError::of("logs DescribeLogGroups", region, &e))?;
        let names = page
            .log_groups()
            .iter()
            .filter_map(|group| group.log_group_name());
        let ours = names.filter(|group| {
            let function = group.strip_prefix(OF_FUNCTIONS).unwrap_or(group);
            stack::owns(name, function, stacks)
        });
        groups.extend(ours.map(str::to_owned));
    }
    Ok(groups)
}

/// Deletes a log group.
///
/// # Errors
/// When the service refused.
pub async fn delete(cloud: &Cloud, region: &str, group: &str) -> Result<(), CloudError> {
    let sent = cloud
        .logs(region)
        .delete_log_group()
        .log_group_name(group)
        .send()
        .await;
    match sent.map_err(|e| CloudError::of("logs DeleteLogGroup", region, &e)) {
        Err(error) if error.kind != Kind::NotFound => Err(error),
        _ => Ok(()),
    }
}
