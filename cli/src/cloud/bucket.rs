//! S3 buckets: a stack's are found by name, emptied of every version, and
//! deleted where their stack has left them.

use aws_sdk_s3::types::{Delete, ObjectIdentifier};

use super::Cloud;
use super::error::{CloudError, Kind, found};
use super::stack;

/// The buckets of a stack in a region: `STACK-…-REGION`.
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
        .buckets(region)
        .list_buckets()
        .prefix(format!("{}-", name.to_lowercase()))
        .into_paginator()
        .send();
    let mut buckets = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|e| CloudError::of("s3 ListBuckets", region, &e))?;
        let names = page.buckets().iter().filter_map(|bucket| bucket.name());
        buckets.extend(
            names
                .filter(|bucket| is_of(bucket, region, name, stacks))
                .map(str::to_owned),
        );
    }
    Ok(buckets)
}

/// A bucket's name is lower case and unique in the world, so it ends with its
/// region; listing shows those of every region.
fn is_of(bucket: &str, region: &str, name: &str, stacks: &[String]) -> bool {
    let stacks: Vec<String> = stacks.iter().map(|name| name.to_lowercase()).collect();
    bucket.ends_with(&format!("-{region}")) && stack::owns(&name.to_lowercase(), bucket, &stacks)
}

/// Deletes every version of every object, and what was left of uploads.
/// Returns how many versions went. A bucket that is not there is empty.
///
/// # Errors
/// When the service refused something.
pub async fn empty(cloud: &Cloud, region: &str, bucket: &str) -> Result<u64, CloudError> {
    let s3 = cloud.buckets(region);
    let mut deleted = 0;
    // Pages are not followed while what they list is being deleted: the first
    // page is asked for until there is none.
    loop {
        let listed = s3.list_object_versions().bucket(bucket).send().await;
        let listed =
            found(listed.map_err(|e| CloudError::of("s3 ListObjectVersions", region, &e)))?;
        let Some(listed) = listed else {
            return Ok(deleted);
        };
        let versions = listed.versions().iter().map(|v| (v.key(), v.version_id()));
        let markers = listed
            .delete_markers()
            .iter()
            .map(|m| (m.key(), m.version_id()));
        let objects: Vec<ObjectIdentifier> = versions
            .chain(markers)
            .filter_map(|(key, version)| {
                let object = ObjectIdentifier::builder().key(key?);
                object
                    .set_version_id(version.map(str::to_owned))
                    .build()
                    .ok()
            })
            .collect();
        if objects.is_empty() {
            break;
        }
        let n = objects.len() as u64;
        let delete = Delete::builder()
            .set_objects(Some(objects))
            .quiet(true)
            .build()
            .map_err(|e| CloudError::odd("s3 DeleteObjects", region, e.to_string()))?;
        let told = s3
            .delete_objects()
            .bucket(bucket)
            .delete(delete)
            .send()
            .await
            .map_err(|e| CloudError::of("s3 DeleteObjects", region, &e))?;
        if let Some(error) = told.errors().first() {
            let (key, code) = (error.key().unwrap_or("-"), error.code().unwrap_or("-"));
            let why = format!("{bucket}/{key}: {code}: {}", error.message().unwrap_or("-"));
            return Err(CloudError::odd("s3 DeleteObjects", region, why));
        }
        deleted += n;
    }
    abort_uploads(&s3, region, bucket).await?;
    Ok(deleted)
}

async fn abort_uploads(
    s3: &aws_sdk_s3::Client,
    region: &str,
    bucket: &str,
) -> Result<(), CloudError> {
    let listed = s3.list_multipart_uploads().bucket(bucket).send().await;
    let listed = found(listed.map_err(|e| CloudError::of("s3 ListMultipartUploads", region, &e)))?;
    for upload in listed.iter().flat_map(|listed| listed.uploads()) {
        let aborted = s3
            .abort_multipart_upload()
            .bucket(bucket)
            .set_key(upload.key().map(str::to_owned))
            .set_upload_id(upload.upload_id().map(str::to_owned))
            .send()
            .await;
        aborted.map_err(|e| CloudError::of("s3 AbortMultipartUpload", region, &e))?;
    }
    Ok(())
}

/// Deletes a bucket, which must be empty.
///
/// # Errors
/// When the service refused.
pub async fn delete(cloud: &Cloud, region: &str, bucket: &str) -> Result<(), CloudError> {
    let sent = cloud
        .buckets(region)
        .delete_bucket()
        .bucket(bucket)
        .send()
        .await;
    match sent.map_err(|e| CloudError::of("s3 DeleteBucket", region, &e)) {
        Err(error) if error.kind != Kind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_of_its_stack_and_region() {
        let stacks = ["Fab".to_owned(), "Fab-2".to_owned()];
        let is = |bucket| is_of(bucket, "us-east-1", "Fab", &stacks);
        assert!(is("fab-111122223333-us-east-1"));
        assert!(!is("fab-111122223333-us-east-2"));
        assert!(!is("fab-2-111122223333-us-east-1"));
        assert!(!is("fabulous-us-east-1"));
    }
}
