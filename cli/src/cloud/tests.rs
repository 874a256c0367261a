//! The clean-up against the stand-in cloud that FABRIC_TEST_CLOUD names: a
//! stack in two regions is made, filled, removed, and counted to zero; what is
//! not its own stays.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use aws_credential_types::Credentials;
use aws_sdk_cloudformation::types::Capability;
use clock::Clock;

use super::cleanup::{self, Options, Report};
use super::inventory::{self, Scope};
use super::manifest::{Event, Intent, Made, Manifest};
use super::*;

/// A home stack: a queue, a table, a bucket, all named as the fleet's are.
const TEMPLATE: &str = r#"
Resources:
  WaveQueue:
    Type: AWS::SQS::Queue
    Properties:
      QueueName: !Sub ${AWS::StackName}-wave
      Tags: [{ Key: dsql-fabric:stack, Value: !Ref AWS::StackName }]
  Table:
    Type: AWS::DynamoDB::Table
    Properties:
      TableName: !Ref AWS::StackName
      BillingMode: PAY_PER_REQUEST
      AttributeDefinitions: [{ AttributeName: pk, AttributeType: S }]
      KeySchema: [{ AttributeName: pk, KeyType: HASH }]
      Tags: [{ Key: dsql-fabric:stack, Value: !Ref AWS::StackName }]
  Bucket:
    Type: AWS::S3::Bucket
    Properties:
      BucketName: !Sub ${AWS::StackName}-${AWS::AccountId}-${AWS::Region}
      VersioningConfiguration: { Status: Enabled }
      Tags: [{ Key: dsql-fabric:stack, Value: !Ref AWS::StackName }]
"#;

const REGIONS: [&str; 2] = ["us-east-1", "us-east-2"];

impl Cloud {
    /// An account of the stand-in's of this test alone.
    async fn stand_in(endpoint: &str, account: &str) -> Cloud {
        let config = aws_config::defaults(BehaviorVersion::latest())
            .region(Region::from_static("us-east-1"))
            .endpoint_url(endpoint)
            .credentials_provider(Credentials::new(account, "secret", None, None, "test"))
            .load()
            .await;
        Cloud {
            clock: Clock::real(),
            config,
        }
    }
}

fn scope(stack: &str) -> Scope {
    Scope {
        stack: stack.to_owned(),
        regions: REGIONS.map(str::to_owned).to_vec(),
        unbound_clusters: true,
    }
}

async fn deploy(cloud: &Cloud, region: &str, name: &str) {
    let stacks = cloud.stacks(region);
    stacks
        .create_stack()
        .stack_name(name)
        .template_body(TEMPLATE)
        .capabilities(Capability::CapabilityIam)
        .send()
        .await
        .unwrap();
    for _ in 0..100 {
        let stack = stack::get(cloud, region, name).await.unwrap().unwrap();
        if stack.status == "CREATE_COMPLETE" {
            return;
        }
        assert_eq!(stack.status, "CREATE_IN_PROGRESS", "{:?}", stack.reason);
        cloud.clock().sleep(Duration::from_millis(100)).await;
    }
    panic!("{name} in {region} was not created");
}

/// Two versions and a delete marker in the bucket, and a function's log group.
async fn fill(cloud: &Cloud, region: &str, name: &str) {
    let stacks = [name.to_owned()];
    let buckets = bucket::of_stack(cloud, region, name, &stacks)
        .await
        .unwrap();
    assert_eq!(buckets.len(), 1);
    let s3 = cloud.buckets(region);
    for body in ["one", "two"] {
        let body = aws_sdk_s3::primitives::ByteStream::from(body.as_bytes().to_vec());
        let put = s3.put_object().bucket(&buckets[0]).key("run/report.html");
        put.body(body).send().await.unwrap();
    }
    let delete = s3.delete_object().bucket(&buckets[0]);
    delete.key("run/report.html").send().await.unwrap();
    let group = format!("/aws/lambda/{name}-worker");
    let logs = cloud.logs(region);
    let create = logs.create_log_group().log_group_name(group);
    create.send().await.unwrap();
}

async fn make_cluster(
    cloud: &Cloud,
    manifest: &Manifest,
    name: &str,
    stack: Option<&str>,
) -> String {
    let region = "us-east-2";
    let line = manifest
        .intend(&Intent {
            made: Made::DsqlCluster,
            region,
            name,
            stack,
        })
        .unwrap();
    let mut create = cloud
        .dsql(region)
        .create_cluster()
        .client_token(&line.key)
        .deletion_protection_enabled(false)
        .tags(TAG_NAME, name)
        .tags(TAG_CREATED, &line.at);
    if let Some(stack) = stack {
        create = create.tags(TAG_STACK, stack);
    }
    let made = create.send().await.unwrap();
    manifest
        .note(&line, Event::Created, Some(made.arn()))
        .unwrap();
    made.identifier().to_owned()
}

async fn protect_cluster(cloud: &Cloud, id: &str, on: bool) {
    let update = cloud.dsql("us-east-2").update_cluster().identifier(id);
    let update = update.deletion_protection_enabled(on);
    update.send().await.unwrap();
}

async fn clean(cloud: &Cloud, manifest: &Manifest, stack: &str, limit_s: u64) -> (Report, String) {
    let said = Mutex::new(String::new());
    let say = |line: &str| {
        let mut said = said.lock().unwrap();
        said.push_str(line);
        said.push('\n');
    };
    let options = Options {
        scope: scope(stack),
        force: false,
        limit: Duration::from_secs(limit_s),
    };
    let (_handle, mut stop) = drive::stop();
    let report = cleanup::all(cloud, manifest, &options, &say, &mut stop).await;
    (report.unwrap(), said.into_inner().unwrap())
}

/// Twelve digits as the access key select an account of the stand-in's; each run
/// of each test has its own.
fn new_account() -> String {
    let since = Clock::real().wall().duration_since(std::time::UNIX_EPOCH);
    let mut rng = drive::rng(
        u64::try_from(since.unwrap().as_nanos()).unwrap(),
        drive::Purpose::Ids,
        u64::from(std::process::id()),
    );
    format!("5{:011}", rand::Rng::next_u64(&mut rng) % 100_000_000_000)
}

fn with_cloud(test: impl AsyncFnOnce(Cloud, Manifest)) {
    let Ok(endpoint) = std::env::var("FABRIC_TEST_CLOUD") else {
        println!("skipped: no cloud (set FABRIC_TEST_CLOUD)");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let runtime = clock::real_runtime().unwrap();
    runtime.block_on(async {
        let cloud = Cloud::stand_in(&endpoint, &new_account()).await;
        let path: &Path = &dir.path().join("manifest.jsonl");
        let manifest = Manifest::at(Some(path), &cloud).unwrap();
        test(cloud, manifest).await;
    });
}

#[test]
fn a_fleet_is_removed_and_counted_to_zero() {
    with_cloud(async |cloud, manifest| {
        let (stack, other) = ("fab", "fab-2");
        for region in REGIONS {
            deploy(&cloud, region, stack).await;
            fill(&cloud, region, stack).await;
        }
        deploy(&cloud, "us-east-1", other).await;
        let kept = cloud.logs("us-east-1").create_log_group();
        let kept = kept.log_group_name("/aws/lambda/fab-2-worker");
        kept.send().await.unwrap();
        let ours = make_cluster(&cloud, &manifest, "ours", Some(stack)).await;
        let unbound = make_cluster(&cloud, &manifest, "unbound", None).await;
        let theirs = make_cluster(&cloud, &manifest, "theirs", Some(other)).await;

        let before = inventory::count(&cloud, &manifest, &scope(stack))
            .await
            .unwrap();
        let kinds = |kind: &str| {
            let items = before.by_listing.iter();
            items.filter(|item| item.kind == kind).count()
        };
        assert_eq!(before.unasked, Vec::<String>::new());
        for (kind, n) in [
            ("stack", 2),
            ("queue", 2),
            ("table", 2),
            ("bucket", 2),
            ("log group", 2),
            ("cluster", 2),
        ] {
            assert_eq!(kinds(kind), n, "{kind}: {:#?}", before.by_listing);
        }
        // Queue and table in both regions bear the tag; the stand-in forgets the
        // bucket's.
        assert!(before.by_tag.len() >= 4, "{:#?}", before.by_tag);

        let (report, said) = clean(&cloud, &manifest, stack, 120).await;
        assert!(report.complete, "{report:#?}\n{said}");
        assert_eq!(report.problems, Vec::<String>::new());
        assert!(said.contains("remaining: 0 by tag, 0 by listing"), "{said}");
        let removed = |kind: &str| {
            let removed = report.removed.iter().filter(|removed| removed.kind == kind);
            removed.collect::<Vec<_>>()
        };
        // Satellites go first.
        let stacks: Vec<&str> = removed("stack").iter().map(|r| r.region.as_str()).collect();
        assert_eq!(stacks, ["us-east-2", "us-east-1"]);
        assert_eq!(removed("log group").len(), 2);
        for objects in removed("objects") {
            assert_eq!(objects.objects, Some(3));
        }
        let clusters: Vec<&str> = removed("cluster").iter().map(|r| r.id.as_str()).collect();
        assert_eq!(clusters.len(), 2);
        assert!(clusters.contains(&ours.as_str()) && clusters.contains(&unbound.as_str()));
        for one in &report.removed {
            assert!(one.requested_utc.is_some(), "{one:?}");
            assert!(one.confirmed_utc >= one.requested_utc, "{one:?}");
        }

        // The other stack has all of its own.
        assert!(
            stack::get(&cloud, "us-east-1", other)
                .await
                .unwrap()
                .is_some()
        );
        let left = inventory::count(&cloud, &manifest, &scope(other))
            .await
            .unwrap();
        for kind in ["stack", "queue", "table", "bucket", "log group", "cluster"] {
            assert!(
                left.by_listing.iter().any(|item| item.kind == kind),
                "{kind}"
            );
        }
        assert!(left.by_listing.iter().any(|item| item.id == theirs));

        // Once more finds nothing to do.
        let (again, _) = clean(&cloud, &manifest, stack, 60).await;
        assert!(again.complete && again.removed.is_empty(), "{again:#?}");
        clean(&cloud, &manifest, other, 60).await;
    });
}

#[test]
fn what_cannot_be_removed_is_counted_and_named() {
    with_cloud(async |cloud, manifest| {
        let stack = "kept";
        deploy(&cloud, "us-east-1", stack).await;
        fill(&cloud, "us-east-1", stack).await;
        let stacks = cloud.stacks("us-east-1");
        let protect = stacks.update_termination_protection();
        protect
            .stack_name(stack)
            .enable_termination_protection(true)
            .send()
            .await
            .unwrap();
        let guarded = make_cluster(&cloud, &manifest, "guarded", Some(stack)).await;
        let free = make_cluster(&cloud, &manifest, "free", Some(stack)).await;
        protect_cluster(&cloud, &guarded, true).await;
        let (report, said) = clean(&cloud, &manifest, stack, 20).await;
        assert!(!report.complete, "{report:#?}");
        assert!(
            report
                .problems
                .iter()
                .any(|p| p.contains("has termination protection")),
            "{:?}\n{said}",
            report.problems
        );
        let listed = &report.remaining.by_listing;
        assert!(
            listed
                .iter()
                .any(|item| item.kind == "stack" && item.id == stack)
        );
        assert!(
            listed.iter().any(|item| item.kind == "bucket"),
            "{listed:?}"
        );
        // One cluster that stays keeps no other.
        assert!(listed.iter().any(|item| item.id == guarded));
        assert!(listed.iter().all(|item| item.id != free), "{listed:?}");
        // What stays keeps what it holds.
        assert!(
            report.removed.iter().all(|one| one.kind != "objects"),
            "{report:#?}"
        );

        protect_cluster(&cloud, &guarded, false).await;
        let unprotect = stacks.update_termination_protection();
        unprotect
            .stack_name(stack)
            .enable_termination_protection(false)
            .send()
            .await
            .unwrap();
        let (report, _) = clean(&cloud, &manifest, stack, 60).await;
        assert!(report.complete, "{report:#?}");
    });
}
