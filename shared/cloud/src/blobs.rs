//! Blobs on S3.

use aws_sdk_s3::Client;
use aws_sdk_s3::operation::get_object::GetObjectError;
use aws_sdk_s3::types::{Delete, ObjectIdentifier};
use fleet::StoreError;

use crate::errors::Call;

/// Objects of one DeleteObjects.
const BATCH: usize = 1_000;

/// A bucket as one call sees it.
pub(crate) struct Bucket<'a> {
    pub(crate) client: &'a Client,
    pub(crate) name: &'a str,
    pub(crate) region: &'a str,
}

impl Bucket<'_> {
    fn call(&self, action: &'static str) -> Call<'_> {
        Call {
            action,
            kind: "bucket",
            name: self.name,
            region: self.region,
        }
    }

    pub(crate) async fn put(&self, name: &str, bytes: Vec<u8>) -> Result<(), StoreError> {
        self.client
            .put_object()
            .bucket(self.name)
            .key(name)
            .body(bytes.into())
            .send()
            .await
            .map(drop)
            .map_err(|error| self.call("s3:PutObject").failed(&error))
    }

    pub(crate) async fn get(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let call = self.call("s3:GetObject");
        let answer = self
            .client
            .get_object()
            .bucket(self.name)
            .key(name)
            .send()
            .await;
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                let none = matches!(error.as_service_error(), Some(GetObjectError::NoSuchKey(_)));
                return if none {
                    Ok(None)
                } else {
                    Err(call.failed(&error))
                };
            }
        };
        match answer.body.collect().await {
            Ok(body) => Ok(Some(body.to_vec())),
            Err(_) => Err(call.busy(&format!("the body of {name} broke off"))),
        }
    }

    pub(crate) async fn list(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        let mut names = Vec::new();
        let mut from: Option<String> = None;
        loop {
            let page = self
                .client
                .list_objects_v2()
                .bucket(self.name)
                .prefix(prefix)
                .set_continuation_token(from)
                .send()
                .await
                .map_err(|error| self.call("s3:ListBucket").failed(&error))?;
            let keys = page.contents().iter().filter_map(|object| object.key());
            names.extend(keys.map(str::to_owned));
            from = page.next_continuation_token;
            if from.is_none() {
                return Ok(names);
            }
        }
    }

    pub(crate) async fn delete(&self, names: &[String]) -> Result<(), StoreError> {
        let call = self.call("s3:DeleteObject");
        for batch in names.chunks(BATCH) {
            let mut objects = Vec::new();
            for name in batch {
                let object = ObjectIdentifier::builder().key(name).build();
                objects.push(object.map_err(|error| call.refused(&error.to_string()))?);
            }
            let delete = Delete::builder().set_objects(Some(objects)).quiet(true);
            let delete = delete
                .build()
                .map_err(|error| call.refused(&error.to_string()))?;
            let answer = self
                .client
                .delete_objects()
                .bucket(self.name)
                .delete(delete)
                .send()
                .await
                .map_err(|error| call.failed(&error))?;
            if let Some(left) = answer.errors().first() {
                let code = left.code().unwrap_or("an error without a code");
                return Err(call.answered(code, left.message().unwrap_or_default()));
            }
        }
        Ok(())
    }
}
