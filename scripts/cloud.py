"""What scripts/local-cloud and scripts/deploy ask of AWS, or of what stands in.

    cloud.py outputs REGION STACK              its outputs, KEY=VALUE a line
    cloud.py upload REGION STACK KEY FILE      a file into the stack's bucket
    cloud.py remove REGION STACK               empties its buckets, deletes it, waits
    cloud.py remains REGION...                 counts what a service still lists
    cloud.py intend REGION STACK               notes in the manifest that it is about
                                               to be created, unless it is there
    cloud.py created REGION STACK              notes that it is there
    cloud.py settle REGION...                  the stand-in only: see settle()

Endpoint and credentials come from the environment, as for every SDK.
"""

import json
import os
import sys
import uuid
from datetime import datetime, timezone
from pathlib import Path

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

SETTINGS = Config(connect_timeout=5, read_timeout=60, retries={"max_attempts": 3})


def client(service, region):
    return boto3.client(service, region_name=region, config=SETTINGS)


def find(region, stack):
    """The stack's description, or None when there is none."""
    try:
        return client("cloudformation", region).describe_stacks(StackName=stack)["Stacks"][0]
    except ClientError as error:
        if "does not exist" in str(error):
            return None
        raise


def outputs(region, stack):
    found = find(region, stack)
    if found is None:
        raise SystemExit(f"error: there is no stack '{stack}' in {region}")
    return {output["OutputKey"]: output["OutputValue"] for output in found.get("Outputs", [])}


def upload(region, stack, key, file):
    bucket = outputs(region, stack)["BucketName"]
    client("s3", region).upload_file(file, bucket, key)
    print(f"  s3://{bucket}/{key}")


def empty(region, bucket):
    s3 = client("s3", region)
    for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket):
        objects = [
            {"Key": entry["Key"], "VersionId": entry["VersionId"]}
            for kind in ("Versions", "DeleteMarkers")
            for entry in page.get(kind, [])
        ]
        if objects:
            s3.delete_objects(Bucket=bucket, Delete={"Objects": objects, "Quiet": True})


def remove(region, stack):
    if find(region, stack) is None:
        return
    began = datetime.now(timezone.utc)
    formation = client("cloudformation", region)
    for page in formation.get_paginator("list_stack_resources").paginate(StackName=stack):
        for resource in page["StackResourceSummaries"]:
            if resource["ResourceType"] == "AWS::S3::Bucket":
                empty(region, resource["PhysicalResourceId"])
    key = open_entry(region, stack)
    if key:
        note("delete_requested", region, key)
    formation.delete_stack(StackName=stack)
    formation.get_waiter("stack_delete_complete").wait(
        StackName=stack, WaiterConfig={"Delay": 1, "MaxAttempts": 600}
    )
    if key:
        note("deleted", region, key)
    seconds = (datetime.now(timezone.utc) - began).total_seconds()
    print(f"  {stack} in {region}: deleted in {seconds:.1f} s")


def manifest():
    """What `fabric` remembers of an account, docs/clusters.md: its file."""
    if named := os.environ.get("FABRIC_MANIFEST"):
        return Path(named)
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state"
    return Path(state) / "fabric" / "manifest.jsonl"


def note(event, region, key, **more):
    """Puts a line onto the disk, before whatever comes next."""
    line = {
        "v": 1,
        "at": datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "cloud": os.environ.get("AWS_ENDPOINT_URL", "aws"),
        "event": event,
        "key": key,
        "made": "stack",
        "region": region,
        **more,
    }
    file = manifest()
    file.parent.mkdir(parents=True, exist_ok=True)
    with open(file, "a", encoding="utf-8") as out:
        out.write(json.dumps(line, separators=(",", ":")) + "\n")
        out.flush()
        os.fsync(out.fileno())


def open_entry(region, stack):
    """Key of the manifest's last entry of this stack that nothing has closed."""
    key, cloud = None, os.environ.get("AWS_ENDPOINT_URL", "aws")
    if not manifest().exists():
        return None
    for text in manifest().read_text(encoding="utf-8").splitlines():
        try:
            line = json.loads(text)
        except ValueError:  # what a crash left has no end
            continue
        if line.get("cloud") != cloud or line.get("made") != "stack" or line.get("region") != region:
            continue
        if line["event"] == "create_requested" and line.get("name") == stack:
            key = line["key"]
        elif line["key"] == key and line["event"] in ("create_refused", "deleted", "absent"):
            key = None
    return key


def intend(region, stack):
    if find(region, stack) is None:
        note("create_requested", region, uuid.uuid4().hex, name=stack, stack=stack)


def created(region, stack):
    key, found = open_entry(region, stack), find(region, stack)
    if key and found:
        note("created", region, key, arn=found["StackId"])


def listed(region):
    """How much each service that a stack uses still lists, by its name."""

    def count(service, operation, key):
        pages = client(service, region).get_paginator(operation).paginate()
        return sum(len(page.get(key, [])) for page in pages)

    stacks = [
        stack
        for page in client("cloudformation", region).get_paginator("list_stacks").paginate()
        for stack in page["StackSummaries"]
        if stack["StackStatus"] != "DELETE_COMPLETE"
    ]
    buckets = [
        bucket
        for bucket in client("s3", region).list_buckets().get("Buckets", [])
        if bucket_region(region, bucket["Name"]) == region
    ]
    return {
        "stacks": len(stacks),
        "queues": count("sqs", "list_queues", "QueueUrls"),
        "tables": count("dynamodb", "list_tables", "TableNames"),
        "buckets": len(buckets),
        "functions": count("lambda", "list_functions", "Functions"),
        "event sources": count("lambda", "list_event_source_mappings", "EventSourceMappings"),
        "log groups": count("logs", "describe_log_groups", "logGroups"),
        "schedules": count("scheduler", "list_schedules", "Schedules"),
        "roles": sum(
            role["RoleName"].endswith(f"-{region}")
            for page in client("iam", region).get_paginator("list_roles").paginate()
            for role in page["Roles"]
        ),
        "alarms": count("cloudwatch", "describe_alarms", "MetricAlarms"),
        "dashboards": count("cloudwatch", "list_dashboards", "DashboardEntries"),
    }


def bucket_region(region, bucket):
    where = client("s3", region).get_bucket_location(Bucket=bucket)["LocationConstraint"]
    return where or "us-east-1"


def remains(*regions):
    total = 0
    for region in regions:
        counts = listed(region)
        total += sum(counts.values())
        print(f"  {region}: " + ", ".join(f"{n} {what}" for what, n in counts.items()))
    return 0 if total == 0 else 1


def settle(*regions):
    """Says every event source's MaximumConcurrency again, as a number.

    The stand-in keeps what a template takes from a parameter as text, and its
    poller then compares text with a number, fails, and takes nothing from any
    queue. AWS converts.
    """
    for region in regions:
        functions = client("lambda", region)
        for page in functions.get_paginator("list_event_source_mappings").paginate():
            for source in page["EventSourceMappings"]:
                limit = source.get("ScalingConfig", {}).get("MaximumConcurrency")
                if limit is not None:
                    functions.update_event_source_mapping(
                        UUID=source["UUID"], ScalingConfig={"MaximumConcurrency": int(limit)}
                    )


def main(command, *arguments):
    if command == "outputs":
        for key, value in sorted(outputs(*arguments).items()):
            print(f"{key}={value}")
    elif command == "upload":
        upload(*arguments)
    elif command == "remove":
        remove(*arguments)
    elif command == "intend":
        intend(*arguments)
    elif command == "created":
        created(*arguments)
    elif command == "remains":
        return remains(*arguments)
    elif command == "settle":
        settle(*arguments)
    else:
        raise SystemExit(f"error: unknown command '{command}'\n{__doc__}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(*(sys.argv[1:] or ["help"])))
    except (BotoCoreError, ClientError) as error:
        raise SystemExit(f"error: {error}") from None
